"""Reads a topic with Spark as a batch, several times over, and prints the seconds of each read as JSON.

Run by `bench.spark` with the interpreter of the environment to measure; imports nothing of the project.
"""

from __future__ import annotations

import json
import sys
import time

ALIKE = 0.05
MOST_WARM_READS = 6


def main() -> None:
    source, bootstrap, topic, repeats, jars = sys.argv[1:6]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("bench").config("spark.ui.enabled", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def frame():  # type: ignore[no-untyped-def] # no types of pyspark in this environment
        return (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .load()
        )

    def read() -> float:
        start = time.perf_counter()
        frame().write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    # The first reads warm up the session (class loading, compilation, worker start) and do not count.
    before = read()
    for _ in range(MOST_WARM_READS - 1):
        now = read()
        if abs(now - before) <= ALIKE * max(now, before):
            break
        before = now
    seconds = [read() for _ in range(int(repeats))]
    print(json.dumps({"seconds": seconds, "count": frame().count()}))
    spark.stop()


if __name__ == "__main__":
    main()
