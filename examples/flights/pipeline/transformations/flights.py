"""From a topic to a table: every flight that left New York in 2013, and how late the carriers were."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BOOTSTRAP = os.environ.get("ODRADEK_BOOTSTRAP_SERVER", "localhost:9092")

FLIGHT = """
    year int, month int, day int, dep_time double, sched_dep_time int, dep_delay double, arr_time double,
    sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string,
    dest string, air_time double, distance int, hour int, minute int, time_hour string
"""


@dp.table(name="flights", partition_cols=["origin"], format="parquet")
def flights() -> DataFrame:
    """The topic `flights`, one row per record, in Parquet files by origin airport; runs on from where it stopped."""
    records = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


@dp.materialized_view(name="arrival_delay_by_carrier", format="parquet")
def arrival_delay_by_carrier() -> DataFrame:
    """The mean arrival delay in minutes of each carrier's flights; cancelled flights have none and do not count."""
    by_carrier = spark.read.table("flights").groupBy("carrier")
    return by_carrier.agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("mean_arrival_delay"))
