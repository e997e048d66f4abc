"""The source and the sink over Spark Connect, and in a project of Spark Declarative Pipelines, which is built on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic, Producer
from odradek.spark.environment import spark_environment
from odradek.testing import EmbeddedBroker
from tests.connect_port import connect_port
from tests.spark.numbers import read_numbers

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.timeout(300)]

RECORDS = 1_000
PARTITIONS = 2

_CONNECT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").getOrCreate()
print("session:", type(spark).__module__)
connection = {"kafka.bootstrap.servers": sys.argv[1]}
print("rows:", spark.read.format("odradek").options(**connection, subscribe="in").load().count())
rows = spark.readStream.format("odradek").options(**connection, subscribe="in", startingOffsets="earliest").load().select("key", "value")
writer = rows.writeStream.format("odradek").options(**connection, topic="out", exactlyOnce="true", checkpointLocation=sys.argv[2])
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""

_PIPELINE = """
import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
CONNECTION = {"kafka.bootstrap.servers": os.environ["BOOTSTRAP"]}


@dp.table
def orders() -> DataFrame:
    return spark.readStream.format("odradek").options(**CONNECTION, subscribe="in", startingOffsets="earliest").load()


dp.create_sink("out", "odradek", {**CONNECTION, "topic": "out", "exactlyOnce": "true"})


@dp.append_flow(target="out", name="orders_out")
def orders_out() -> DataFrame:
    return spark.readStream.table("orders").select("key", "value")
"""


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A broker with records in the topic `in`."""
    with EmbeddedBroker({"transaction.state.log.num.partitions": "2"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("in", b"%d" % number, key=b"%d" % number)
        yield broker.bootstrap_servers


def _run(command: list[str], folder: Path, **more: str) -> str:
    environment = {**spark_environment(), "PYTHONWARNINGS": "ignore", **more}
    with connect_port():
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_spark_connect(bootstrap: str, tmp_path: Path) -> None:
    output = _run([sys.executable, "-c", _CONNECT, bootstrap, str(tmp_path / "checkpoint")], tmp_path)
    assert "session: pyspark.sql.connect.session" in output
    assert f"rows: {RECORDS}" in output
    assert read_numbers(bootstrap, "out", PARTITIONS, RECORDS) == list(range(RECORDS))


def test_a_declarative_pipeline_with_a_table_and_a_sink(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(_PIPELINE)
    spec = f"name: orders\nstorage: {(tmp_path / 'storage').as_uri()}\nlibraries:\n  - glob:\n      include: transformations/**\n"
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri()}
    command = [str(Path(spark_environment()["SPARK_HOME"]) / "bin" / "spark-pipelines"), "run"]
    _run([*command, *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}"))], tmp_path, BOOTSTRAP=bootstrap)
    assert read_numbers(bootstrap, "out", PARTITIONS, RECORDS) == list(range(RECORDS))
    assert any(name.endswith(".parquet") for _, _, names in os.walk(tmp_path / "warehouse" / "orders") for name in names)
