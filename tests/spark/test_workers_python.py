"""Spark's workers run in the Python of the session where that was asked for, whatever the PATH has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.spark.environment import spark_environment, use_this_python
from odradek.testing import EmbeddedBroker

_JOB = """
import sys
from odradek.spark import use_this_python
use_this_python()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("odradek").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "t").load()
print("rows:", rows.count())
"""


def test_the_users_choice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/chosen/python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    use_this_python()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == ("/chosen/python", sys.executable)


def test_scripts_of_spark_find_this_python_first(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = spark_environment({"PATH": "/usr/bin", "SPARK_LOCAL_IP": "10.0.0.1"})
    assert environment["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert (Path(environment["SPARK_HOME"]) / "bin" / "spark-submit").exists()
    assert environment["SPARK_LOCAL_IP"] == "10.0.0.1"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_another_python_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\necho this is another Python >&2\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = os.pathsep.join([str(tmp_path), environment["PATH"]])
    with EmbeddedBroker() as broker:
        from odradek.client import Producer

        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(30)
        command = [sys.executable, "-c", _JOB, broker.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rows: 1" in done.stdout
