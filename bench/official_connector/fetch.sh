#!/usr/bin/env bash
# A virtual environment with pyspark 4.0.0 and what Odradek needs there, and the official Kafka connector's jars, in
# .cache/official-connector. PYTHON is the interpreter for it: compiled modules of this checkout are those of one release of Python.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-$here/../../.cache/official-connector}
stamp=$home/.complete-$(cat "$here/fetch.sh" "$here/pom.xml" | cksum | cut -d' ' -f1)
[ -e "$stamp" ] && exit 0
mkdir -p "$home"
rm -f "$home"/.complete*
[ -x "$home/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$home/venv"
"$home/venv/bin/python" -c '
import sys, tomllib
for each in tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]: print(each)
' "$here/../../pyproject.toml" > "$home/requirements.txt"
"$home/venv/bin/python" -m pip install -q "pyspark==4.0.0" "pyarrow>=18" "pandas>=2.2,<3" -r "$home/requirements.txt"
mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home/jars"
touch "$stamp"
