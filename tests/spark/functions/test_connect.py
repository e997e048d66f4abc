"""The functions over Spark Connect, and in a project of Spark Declarative Pipelines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from odradek.client.schemas import AvroSerializer, SchemaRegistry
from odradek.spark.environment import spark_environment
from odradek.testing import SchemaRegistryServer

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.timeout(300)]

_CONNECT = """
import sys
from pyspark.sql import SparkSession, functions as F
from odradek.spark.functions import from_avro, from_json, from_registry, to_registry

spark = SparkSession.builder.remote("local[1]").getOrCreate()
print("session:", type(spark).__module__)
record = bytearray.fromhex(sys.argv[2])
rows = spark.createDataFrame([(record,), (bytearray(b"?"),), (None,)], "value binary")
read = rows.select(from_registry("value", sys.argv[1], subject="t-value", errors=True).alias("r")).collect()
print("registry:", [(row.r.value, row.r.error) for row in read])
print("avro:", rows.limit(1).select(from_avro(F.substring("value", 6, 100), '"string"').alias("v")).collect()[0].v)
print("json:", spark.sql("select '[1]' j").select(from_json("j", "array<int>").alias("v")).collect()[0].v)
written = spark.sql("select 'tea' v").select(to_registry("v", sys.argv[1], subject="t-value").alias("v")).collect()[0].v
print("written:", bytes(written) == bytes(record))
try:
    rows.select(from_registry("value", sys.argv[1], subject="t-value")).collect()
except Exception as error:
    print("failed:", str(error).splitlines()[0])
spark.stop()
"""

_PIPELINE = """
import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek.spark.functions import from_json, from_registry

spark = SparkSession.active()


@dp.materialized_view
def teas() -> DataFrame:
    rows = spark.range(1).select(F.unhex(F.lit(os.environ["RECORD"])).alias("value"), F.lit('{"a": 5}').alias("json"))
    tea = from_registry("value", os.environ["REGISTRY"], subject="t-value").alias("tea")
    return rows.select(tea, from_json("json", "a INT").alias("json"))
"""


def _record(server: SchemaRegistryServer) -> str:
    with SchemaRegistry(server.url) as registry:
        return AvroSerializer(registry, '"string"').serialize("t", "value", "tea", []).hex()


def _run(command: list[str], folder: Path, **more: str) -> str:
    environment = {**spark_environment(), "PYTHONWARNINGS": "ignore", **more}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_spark_connect(tmp_path: Path) -> None:
    with SchemaRegistryServer() as server:
        output = _run([sys.executable, "-c", _CONNECT, server.url, _record(server)], tmp_path)
    assert "session: pyspark.sql.connect.session" in output
    assert "registry: [('tea', None), (None, \"the value does not name a schema: the first byte is 63" in output
    assert "avro: tea" in output
    assert "json: [1]" in output
    assert "written: True" in output
    assert "failed: [USER_RAISED_EXCEPTION] the value does not name a schema" in output


def test_a_declarative_pipeline(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "teas.py").write_text(_PIPELINE)
    spec = f"name: teas\nstorage: {(tmp_path / 'storage').as_uri()}\nlibraries:\n  - glob:\n      include: transformations/**\n"
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri()}
    command = [str(Path(spark_environment()["SPARK_HOME"]) / "bin" / "spark-pipelines"), "run"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with SchemaRegistryServer() as server:
        _run(command, tmp_path, RECORD=_record(server), REGISTRY=server.url)
    files = list((tmp_path / "warehouse" / "teas").rglob("*.parquet"))
    assert [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()] == [{"tea": "tea", "json": {"a": 5}}]
