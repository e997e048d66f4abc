"""What `test_spark_releases` runs on an older pyspark: `spark_four.py BOOTSTRAP TOPIC CHECKPOINT` prints a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def refused(action: Callable[[], object]) -> str:
    """What the error says."""
    try:
        action()
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    bootstrap, topic, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

    def rows(**options: str) -> DataFrame:
        wanted = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
        return spark.read.format("odradek").options(**wanted).load()

    def read_stream() -> None:
        stream = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
        stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

    def write_stream() -> None:
        sink = spark.readStream.format("rate").load().selectExpr("cast(value as string) value").writeStream.format("odradek")
        sink = sink.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).option("checkpointLocation", checkpoint)
        sink.trigger(availableNow=True).start().awaitTermination()

    numbers = spark.range(10_000).selectExpr("cast(id as string) key", "cast(id as string) value")
    numbers.write.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode("append").save()
    answer: dict[str, Any] = {
        "release": spark.version,
        "values": sorted(int(row.value) for row in rows().select("value").collect()),
        "pushed": refused(lambda: rows(pushFilters="true").count()),
        "read stream": refused(read_stream),
        "write stream": refused(write_stream),
    }
    print(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main()
