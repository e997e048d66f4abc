#!/usr/bin/env bash
# A virtual environment of its own with pyspark 4.0.0 and the official Kafka connector's jars, in .cache/official-connector.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.cache/official-connector}
[ -e "$home/.complete" ] && exit 0
mkdir -p "$home"
[ -x "$home/venv/bin/python" ] || python3 -m venv "$home/venv"
"$home/venv/bin/python" -m pip install -q "pyspark==4.0.0"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home/jars"
touch "$home/.complete"
