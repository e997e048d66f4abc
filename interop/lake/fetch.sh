#!/usr/bin/env bash
# For the tests of lake tables: jars of Delta Lake and Iceberg in .cache/lake/delta and .cache/lake/iceberg, and a virtual environment with
# the newest pyspark that Delta Lake runs on in .cache/lake/spark. (Iceberg's tests take that of interop/official_connector.)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.cache/lake}
python=${PYTHON:-python3}
stamp=$home/.complete-$({ cat "$here/fetch.sh" "$here/pom.xml" "$here/../../pyproject.toml"; "$python" --version; } | cksum | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0
mkdir -p "$home"
rm -rf "$home"/.complete* "$home/delta" "$home/iceberg"
echo "Fetching Delta Lake, Iceberg and Spark 4.2 ..."
# Spark has what else they need: what they bring along must not come before it.
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DincludeGroupIds=io.delta,io.unitycatalog -DoutputDirectory="$home/delta"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DincludeGroupIds=org.apache.iceberg -DoutputDirectory="$home/iceberg"
"$python" -m venv --clear "$home/spark"
"$home/spark/bin/python" -c '
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
for each in project["dependencies"] + project["optional-dependencies"]["spark"]:
    if not each.startswith("pyspark"): print(each)
' "$here/../../pyproject.toml" > "$home/requirements.txt"
"$home/spark/bin/python" -m pip install -q "pyspark==4.2.1" -r "$home/requirements.txt"
touch "$stamp"
