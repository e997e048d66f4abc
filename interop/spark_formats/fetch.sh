#!/usr/bin/env bash
# Spark's own functions for Avro, for the Spark of official_connector, in .cache/spark-formats.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.cache/spark-formats}
stamp=$home/.complete-$(cat "$here/fetch.sh" "$here/pom.xml" | cksum | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0
mkdir -p "$home"
rm -f "$home"/.complete* "$home"/*.jar
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home"
touch "$stamp"
