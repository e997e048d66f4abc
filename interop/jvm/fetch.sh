#!/usr/bin/env bash
# Brings JVM Kafka into .cache/jvm/libs through Maven (and Maven and a JDK through apt where root on Debian). Does nothing when it is there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
libs=${ODRADEK_JVM_LIBS:-$here/../../.cache/jvm/libs}
stamp=$libs/.complete-$(cksum < "$here/pom.xml" | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0
need=()
command -v mvn >/dev/null || need+=(maven)
command -v javac >/dev/null || need+=(openjdk-17-jdk-headless)
if [ ${#need[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${need[@]}"
    else
        echo "JVM Kafka is fetched with Maven: please install ${need[*]} and run this again." >&2
        exit 1
    fi
fi
mkdir -p "$libs"
rm -f "$libs"/*.jar
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$libs"
touch "$stamp"
