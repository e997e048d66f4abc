#!/usr/bin/env bash
# A virtual environment with pyspark 4.0.0 and what Odradek needs there, and the official Kafka connector's jars, in
# .cache/official-connector. PYTHON is the interpreter for it: compiled modules of this checkout are those of one release of Python.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.cache/official-connector}
python=${PYTHON:-python3}
stamp=$home/.complete-$({ cat "$here/fetch.sh" "$here/pom.xml" "$here/../../pyproject.toml"; "$python" --version; } | cksum | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0
mkdir -p "$home"
rm -f "$home"/.complete*
"$python" -m venv --clear "$home/venv"
"$home/venv/bin/python" -c '
import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
for each in project["dependencies"] + [
    each for extra in ("spark", "schemas") for each in project["optional-dependencies"][extra]
]:
    if not each.startswith("pyspark"): print(each)
' "$here/../../pyproject.toml" > "$home/requirements.txt"
"$home/venv/bin/python" -m pip install -q "pyspark==4.0.0" -r "$home/requirements.txt"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home/jars"
touch "$stamp"
