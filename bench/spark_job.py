"""Reads a topic with Spark as a batch, several times over, and prints the seconds of each read as JSON.

Run by `bench.spark` with the interpreter of the environment to measure; imports nothing of the project.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    source, bootstrap, topic, repeats, jars = sys.argv[1:6]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("bench").config("spark.ui.enabled", "false")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    seconds = []
    for _ in range(int(repeats) + 1):
        start = time.perf_counter()
        frame = (
            spark.read.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .load()
        )
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - start)
    # The first read warms up the session (class loading, worker start) and does not count.
    print(json.dumps({"seconds": seconds[1:], "count": frame.count()}))
    spark.stop()


if __name__ == "__main__":
    main()
