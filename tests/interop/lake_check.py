"""Asks the tables of a project, with the functions of docs/lake-tables.md: `lake_check.py WHAT PROJECT JARS`, JSON on the last line."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from odradek.client import Producer
from odradek.config.properties import parse_properties
from odradek.spark import use_this_python

WHAT, HOME, JARS = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
PAGE = Path(__file__).parents[2] / "docs" / "lake-tables.md"
page: dict[str, Any] = {}
exec("\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)), page)

use_this_python()
settings = parse_properties((HOME / "spark.conf").read_text()) | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
FORMAT = "iceberg" if "iceberg" in str(settings) else "delta" if "delta" in str(settings) else "parquet"
settings["spark.databricks.delta.snapshotPartitions"] = "2"  # 50 of its own choice: much for a table of five files
if JARS:
    settings["spark.jars"] = ",".join(map(str, Path(JARS).glob("*.jar")))
builder = SparkSession.builder.master("local[2]").config(map=settings)
spark = (builder.enableHiveSupport() if WHAT == "catalog" else builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
KAFKA = {key.removeprefix("spark.odradek."): value for key, value in settings.items() if key.startswith("spark.odradek.kafka.")}
TABLES = str(HOME / "tables")
answer: dict[str, Any] = {}


def table(name: str) -> Any:
    if WHAT == "catalog":
        return spark.table(name)
    if FORMAT == "iceberg":
        return spark.table(f"lake.topics.{name}")
    if FORMAT == "delta":
        return spark.read.format("delta").load(f"{TABLES}/{name}")
    return page["table"](spark, TABLES, name)


def files() -> int:
    """How many files a reader of the whole table opens."""
    if FORMAT == "iceberg":
        return spark.table("lake.topics.orders.files").count()
    return table("orders").selectExpr("input_file_name()").distinct().count()


def look(after: str = "") -> None:
    differences = page["differences"](spark, KAFKA, "orders", [table("orders"), table("orders_dead_letters")])
    answer[f"differences{after}"] = [list(row) for row in differences.collect()]
    answer[f"ids{after}"] = sorted(row[0] for row in table("orders").select("id").collect())
    answer[f"files{after}"] = files()


def compact() -> None:
    if FORMAT == "iceberg":
        page["compact_iceberg"](spark, "topics.orders", "now() + INTERVAL 1 DAY")
        noted = "SELECT count_if(summary['odradek.offsets'] IS NOT NULL) FROM lake.topics.orders.snapshots"
        answer["snapshots with offsets"] = spark.sql(noted).first()[0]
    elif FORMAT == "delta":
        page["compact_delta"](spark, f"{TABLES}/orders")
    else:
        compact_parquet()


def compact_parquet() -> None:
    first = min(path.name for path in Path(TABLES, "orders").glob("landed=*"))
    torn = Path(TABLES, "orders_closed", first)
    torn.mkdir(parents=True)
    shutil.copy(next(Path(TABLES, "orders", first).glob("*.parquet")), torn / "part-torn.parquet")
    answer["rows beside a torn day"] = table("orders").count()
    reading = table("orders")
    page["close_days"](spark, TABLES, "orders")
    answer["closed"] = page["closed_days"](TABLES, "orders")
    answer["first"] = first.removeprefix("landed=")
    answer["rows of a reader from before"] = reading.count()
    written = [path.stat().st_mtime_ns for path in sorted(torn.iterdir())]
    page["close_days"](spark, TABLES, "orders")
    answer["closed days are left alone"] = written == [path.stat().st_mtime_ns for path in sorted(torn.iterdir())]


def late() -> None:
    """Rows by `in_time` and `too_late`, then one that falls behind the watermark."""
    spec = importlib.util.spec_from_file_location("job", HOME / "job.py")
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)

    def run(name: str, rows: Any) -> Any:
        query = rows.writeStream.format("parquet").option("path", f"{TABLES}/{name}")
        query = query.option("checkpointLocation", f"{HOME}/checkpoints/{name}").trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    answer["dropped"] = page["dropped"](run("fresh", page["in_time"](job.rows(job.records()))))
    run("late", page["too_late"](job.rows(job.records())))
    with Producer(bootstrap_servers=KAFKA["kafka.bootstrap.servers"]) as producer:
        value = json.dumps({"id": 99, "ordered": "2025-01-01T00:00:00Z"})
        producer.send("orders", value, partition=0, timestamp=1_735_689_600_000)
    answer["dropped later"] = page["dropped"](run("fresh", page["in_time"](job.rows(job.records()))))
    answer["fresh"] = sorted(row[0] for row in spark.read.parquet(f"{TABLES}/fresh").select("id").collect())
    answer["late"] = sorted([row[0], row[1]] for row in spark.read.parquet(f"{TABLES}/late").select("id", "error").collect())


if WHAT == "late":
    late()
else:
    look()
    dead = table("orders_dead_letters").groupBy("error").count().collect()
    answer["errors"] = {row[0]: row[1] for row in dead}
    if WHAT == "restart":
        answer["notes"] = table("orders").where("note = 'new'").count()
        answer["days"] = table("orders").select("landed").distinct().count()
        compact()
        look(" after compaction")
spark.stop()
print(json.dumps(answer))
