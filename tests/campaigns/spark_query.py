"""The driver of a streaming query that campaigns start, kill and start again: python -m tests.campaigns.spark_query OPTIONS

Reads a topic by the source and writes it by the exactly-once sink, both of Odradek. OPTIONS are the fields of `Options` as JSON. Prints
`batch N` for each micro-batch that Spark has finished, and `error TEXT` when the query has failed, which ends the process with status 1.
"""

from __future__ import annotations

import json
import sys
import time
from typing import NamedTuple

_TICK_S = 0.05


class Options(NamedTuple):
    """What the query does."""

    bootstrap: str
    source: str
    sink: str
    checkpoint: str
    master: str = "local[2,4]"
    """With four failures of a task allowed: a worker's end does not end the query."""
    rows: int = 2_000
    """Of a micro-batch."""
    to_the_end: bool = False
    """Whether the query ends when it has read what is there."""


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
    writing = (
        rows.select("key", "value")
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("topic", options.sink)
        .option("exactlyOnce", True)
        .option("checkpointLocation", options.checkpoint)
    )
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
    print("done", flush=True)


if __name__ == "__main__":
    main()
