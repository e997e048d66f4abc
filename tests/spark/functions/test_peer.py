"""Beside Spark's own from_avro, on the oldest Spark that is supported: the same types and rows of schemas and values of chance."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from interop.peers import REPOSITORY

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(600)]

CACHE = REPOSITORY / ".cache"
PYTHON = CACHE / "official-connector" / "venv" / "bin" / "python"
JAR = CACHE / "spark-formats" / "spark-avro_2.13-4.0.0.jar"


def test_types_and_rows_are_those_of_spark() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {"PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}", "PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"}
    script = [str(PYTHON), "-P", str(Path(__file__).with_name("peer.py")), str(JAR), "1", "30"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["different"] == []
    assert (answer["release"], answer["cases"]) == ("4.0.0", 30)
    assert answer["theirs refuses"] <= 5
