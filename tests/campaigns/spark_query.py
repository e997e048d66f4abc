"""Driver of a streaming query that campaigns start, kill and start again: python -m tests.campaigns.spark_query OPTIONS

The query reads a topic with Odradek's source. It writes with Odradek's exactly-once sink, or into a table of Parquet files with Spark's own
sink. OPTIONS are the fields of `Options` as JSON. The driver prints `batch N` for each micro-batch that Spark has finished, and `error
TEXT` when the query has failed, which ends the process with status 1. At the end (`to_the_end`) the values of a table are written to the
file beside it, one per line.

With `watched`, a second query reads the topic into nothing, and `beside N` is printed for its micro-batches. From time to time `heap N` is
printed: the bytes of the JVM's heap after a full collection. Spark then remembers few jobs, so that its history does not look like a leak.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from interop.peers import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TICK_S = 0.05


class Options(NamedTuple):
    """Settings of the query."""

    bootstrap: str
    source: str
    sink: str
    """Topic, or folder of the table."""
    checkpoint: str
    master: str = "local[2,4]"
    """Spark's master. Four failures of a task are allowed: the end of a worker does not end the query."""
    rows: int = 2_000
    """Maximum number of rows of a micro-batch."""
    to_the_end: bool = False
    """Whether the query ends when it has read all present records."""
    into: str = "topic"
    """"topic" or "table"."""
    watched: bool = False
    interval_s: float = 0.0
    """Seconds between the starts of micro-batches."""


_REMEMBER_LITTLE = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.retainedQueries": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.cleaner.periodicGC.interval": "1min",
    # The whole heap is allocated from the beginning: growth of the process is not heap.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xms512m -XX:+AlwaysPreTouch",
}
_HEAP_EVERY_S = 30.0


def start_query(options: Options, log: IO[str]) -> subprocess.Popen[str]:
    """Start the driver in a new session, so that it can be killed with all processes that it has started. Its errors go to `log`."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.campaigns.spark_query", json.dumps(options._asdict())],
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )


def values_of(table: str) -> Path:
    """Return the file with the values of a table."""
    return Path(f"{table}.values")


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    from odradek.spark.environment import use_this_python

    use_this_python()
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    builder = (
        SparkSession.builder.master(options.master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.streaming.stopTimeout", "5s")
    )
    for name, value in _REMEMBER_LITTLE.items() if options.watched else ():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.rows)
        .load()
    )
    writing = rows.select("key", "value").writeStream.option("checkpointLocation", options.checkpoint)
    if options.into == "table":
        writing = writing.format("parquet").option("path", options.sink)
    else:
        writing = writing.format("odradek").option("kafka.bootstrap.servers", options.bootstrap)
        writing = writing.option("topic", options.sink).option("exactlyOnce", True)
    trigger = {"availableNow": True} if options.to_the_end else {"processingTime": f"{options.interval_s} seconds"}
    query: StreamingQuery = writing.trigger(**trigger).start()
    queries = {"batch": query}
    if options.watched:
        beside = rows.writeStream.format("noop").option("checkpointLocation", options.checkpoint + "-beside")
        queries["beside"] = beside.trigger(**trigger).start()
    print("started", flush=True)
    seen = dict.fromkeys(queries, -1)
    looked = time.monotonic()
    while all(each.isActive for each in queries.values()):
        for name, each in queries.items():
            progress = each.lastProgress
            if progress is not None and progress["batchId"] != seen[name]:
                seen[name] = progress["batchId"]
                print(f"{name} {seen[name]}", flush=True)
        if options.watched and time.monotonic() - looked > _HEAP_EVERY_S:
            looked = time.monotonic()
            print(f"heap {_live_heap(spark)}", flush=True)
        time.sleep(_TICK_S)
    error = next(filter(None, (each.exception() for each in queries.values())), None)
    if error is not None:
        print("error " + " ".join(str(error).split())[:500], flush=True)
        sys.exit(1)
    if options.to_the_end and options.into == "table":
        values = spark.read.parquet(options.sink).selectExpr("cast(value as string) value").toPandas()["value"]
        values_of(options.sink).write_text("\n".join(values))
    print("done", flush=True)


def _live_heap(spark: SparkSession) -> int:
    """Return the bytes of the JVM's heap after a full collection."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


if __name__ == "__main__":
    main()
