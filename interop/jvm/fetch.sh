#!/usr/bin/env bash
# Brings the peers: JVM Kafka 4.3.1 into .cache/jvm/libs and the clients of 3.9 (for the ZooKeeper era's messages) into .cache/jvm/zk through
# Maven; Maven, a JDK and kcat through apt where root on Debian. Does nothing when all of it is there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../.cache/jvm
need=()
command -v kcat >/dev/null || need+=(kcat)
for pom in pom.xml:libs zookeeper-era.xml:zk; do
    folder=$cache/${pom#*:}
    [ -e "$folder/.complete-$(cksum < "$here/${pom%:*}" | cut -d' ' -f1)" ] && continue
    command -v mvn >/dev/null || need+=(maven)
    command -v javac >/dev/null || need+=(openjdk-17-jdk-headless)
done
if [ ${#need[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing ${need[*]} ..."
        "$here/../../packaging/apt.sh" "${need[@]}"
    else
        echo "The tests against JVM Kafka need ${need[*]}: please install them and run this again." >&2
        exit 1
    fi
fi
for pom in pom.xml:libs zookeeper-era.xml:zk; do
    folder=$cache/${pom#*:}
    stamp=$folder/.complete-$(cksum < "$here/${pom%:*}" | cut -d' ' -f1)
    [ -e "$stamp" ] && continue
    echo "Fetching JVM Kafka (${pom%:*}) ..."
    mkdir -p "$folder"
    rm -f "$folder"/*.jar "$folder"/.complete-*
    mvn -q -B -f "$here/${pom%:*}" dependency:copy-dependencies -DoutputDirectory="$folder"
    touch "$stamp"
done
