"""A Spark session that does the jobs of `bench.spark`: a line of JSON each on standard input, a line of JSON in answer.

Run with the interpreter of the environment to measure, `spark_session.py CORES JARS`; imports nothing of the project, which is on the
PYTHONPATH where its source is measured. The first line says which Spark this is.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_VALUE = "rpad(cast(id as string), {size}, 'abcdefghijklmnopqrstuvwxyz')"


class Ready(DataSource):
    """Rows that are there already: what Spark takes at most of a source in Python, in the columns of ours."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"

    def reader(self, schema: Any) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]), int(self.options["size"]))


class ReadyReader(DataSourceReader):
    """One task, which hands out one Arrow batch over and over."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows = rows
        self.size = size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Any:
        import pyarrow as pa

        many = min(self.rows, (16 << 20) // (self.size + 60))
        batch = pa.record_batch(
            {
                "key": pa.nulls(many, pa.binary()),
                "value": pa.array([b"v" * self.size] * many, pa.binary()),
                "topic": pa.array(["topic"] * many),
                "partition": pa.array([0] * many, pa.int32()),
                "offset": pa.array(range(many), pa.int64()),
                "timestamp": pa.array([0] * many, pa.timestamp("us", "UTC")),
                "timestampType": pa.array([0] * many, pa.int32()),
            }
        )
        for start in range(0, self.rows, many):
            yield batch.slice(0, min(many, self.rows - start))


class Jobs:
    """What the session can be asked for; each answers with the seconds that it took and the rows that it saw."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        spark.dataSource.register(Ready)

    def _topic(self, job: dict[str, Any], stream: bool = False) -> DataFrame:
        reader = self._spark.readStream if stream else self._spark.read
        return reader.format(job["source"]).options(**job["options"]).load()

    def read(self, job: dict[str, Any]) -> dict[str, Any]:
        """A batch into nothing. The rows are counted by `count`, as that would cost time here."""
        start = time.perf_counter()
        self._topic(job).write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - start}

    def count(self, job: dict[str, Any]) -> dict[str, Any]:
        return {"rows": self._topic(job).count()}

    def parquet(self, job: dict[str, Any]) -> dict[str, Any]:
        """A batch into files."""
        folder = tempfile.mkdtemp(prefix="odradek-bench-parquet-")
        try:
            start = time.perf_counter()
            self._topic(job).write.mode("overwrite").parquet(folder)
            seconds = time.perf_counter() - start
            return {"seconds": seconds, "rows": self._spark.read.parquet(folder).count()}
        finally:
            shutil.rmtree(folder)

    def stream(self, job: dict[str, Any]) -> dict[str, Any]:
        """A streaming query of all that is there, in micro-batches of a limited size, into nothing."""
        folder = tempfile.mkdtemp(prefix="odradek-bench-checkpoint-")
        try:
            start = time.perf_counter()
            writer = self._topic(job, stream=True).writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            seconds = time.perf_counter() - start
            return {"seconds": seconds, "rows": sum(each["numInputRows"] for each in query.recentProgress)}
        finally:
            shutil.rmtree(folder)

    def batches(self, job: dict[str, Any]) -> dict[str, Any]:
        """As `stream`, with what Spark says of each micro-batch: milliseconds of its parts, and its rows."""
        folder = tempfile.mkdtemp(prefix="odradek-bench-checkpoint-")
        try:
            writer = self._topic(job, stream=True).writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            made = [each for each in query.recentProgress if each["numInputRows"]]
            rows = [each["numInputRows"] for each in made]
            return {"rows": sum(rows), "rows of each": rows, "ms of each": [dict(each["durationMs"]) for each in made]}
        finally:
            shutil.rmtree(folder)

    def write(self, job: dict[str, Any]) -> dict[str, Any]:
        """Rows that Spark makes, into a topic."""
        value = _VALUE.format(size=job["size"])
        rows = self._spark.range(0, job["rows"], numPartitions=2).selectExpr(f"{value} as value")
        start = time.perf_counter()
        rows.write.format(job["source"]).options(**job["options"]).mode("append").save()
        return {"seconds": time.perf_counter() - start, "rows": job["rows"]}

    def ready(self, job: dict[str, Any]) -> dict[str, Any]:
        """Rows that no broker gave, into nothing."""
        frame = self._spark.read.format("ready").options(rows=job["rows"], size=job["size"]).load()
        start = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - start, "rows": job["rows"]}


def main() -> None:
    cores, jars = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench").config("spark.ui.enabled", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jobs = Jobs(spark)
    print(json.dumps({"spark": spark.version}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = getattr(jobs, job["job"])(job)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
