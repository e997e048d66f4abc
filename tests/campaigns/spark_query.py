"""The driver of a streaming query that campaigns start, kill and start again: python -m tests.campaigns.spark_query OPTIONS

Reads a topic by Odradek's source and writes it by Odradek's exactly-once sink, or into a table of Parquet files by Spark's own. OPTIONS are
the fields of `Options` as JSON. Prints `batch N` for each micro-batch that Spark has finished, and `error TEXT` when the query has failed,
which ends the process with status 1. In the end (`to_the_end`) the values of a table are written to the file beside it, a line each.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

_TICK_S = 0.05


class Options(NamedTuple):
    """What the query does."""

    bootstrap: str
    source: str
    sink: str
    """The topic, or the folder of the table."""
    checkpoint: str
    master: str = "local[2,4]"
    """With four failures of a task allowed: a worker's end does not end the query."""
    rows: int = 2_000
    """Of a micro-batch."""
    to_the_end: bool = False
    """Whether the query ends when it has read what is there."""
    into: str = "topic"
    """Or "table"."""


def values_of(table: str) -> Path:
    """The file with the values of a table."""
    return Path(f"{table}.values")


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    from odradek.spark.environment import use_this_python

    use_this_python()
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    spark = (
        SparkSession.builder.master(options.master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.streaming.stopTimeout", "5s")
        .getOrCreate()
    )
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
    query: StreamingQuery = (
        writing.trigger(availableNow=True) if options.to_the_end else writing.trigger(processingTime="0 seconds")
    ).start()
    print("started", flush=True)
    seen = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != seen:
            seen = progress["batchId"]
            print(f"batch {seen}", flush=True)
        time.sleep(_TICK_S)
    error = query.exception()
    if error is not None:
        print("error " + " ".join(str(error).split())[:500], flush=True)
        sys.exit(1)
    if options.to_the_end and options.into == "table":
        values = spark.read.parquet(options.sink).selectExpr("cast(value as string) value").toPandas()["value"]
        values_of(options.sink).write_text("\n".join(values))
    print("done", flush=True)


if __name__ == "__main__":
    main()
