"""Blocks of text for projects: Python and settings, with @marks@ for a recipe's names.

Users read and change the text of a block. The tests run each block as it stands here.
"""

from __future__ import annotations

from typing import Final

GITIGNORE: Final = """\
# Files that a run writes here: tables, checkpoints, the catalog.
/checkpoints/
/derby.log
/metastore_db/
/spark-warehouse/
/storage/
/tables/
/warehouse/
__pycache__/
"""

SPEC: Final = """\
# Spark Declarative Pipelines reads this; `odradek pipeline run` starts it with the settings of spark.conf.
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""

CONF_HEAD: Final = """\
# Settings of the Spark session (spark-submit --properties-file).
# Every spark.odradek.kafka.* is an option of the source, such as those of TLS and SASL. Only you should be able to read passwords.
spark.log.level WARN"""

CONF_CATALOG: Final = """\
# The catalog that keeps tables between runs, in metastore_db beside this file: one run at a time. A cluster has its own metastore.
spark.sql.catalogImplementation hive"""

CONF_LAKE: Final = """\
# {title}. `odradek pipeline run` adds the package that suits the installed Spark."""

# -- reading ------------------------------------------------------------------------------------------------------------------------------

ACTIVE_SESSION: Final = """\
spark = SparkSession.active()

"""

NEW_SESSION: Final = """\
spark = SparkSession.builder.appName("@name@").getOrCreate()

"""

_SETTINGS: Final = """\
TOPIC = "@topic@"
"""

_SETTINGS_SCHEMA: Final = """\
SCHEMA = @schema@
"""

_KAFKA: Final = """\
KAFKA = {key.removeprefix("spark.odradek."): value for key, value in spark.conf.getAll.items() if key.startswith("spark.odradek.kafka.")}
PLACE = F.struct("topic", "partition", "offset", "timestamp", "key").alias("kafka")
LANDED = F.current_date().alias("landed")


"""

RECORDS: Final = '''\
def records() -> DataFrame:
    """Return the records of the topic from its beginning; a run continues where the previous run ended."""
    source = spark.readStream.format("odradek").options(**KAFKA)
    return source.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()


'''

_PLAIN: Final = '''\
def rows(read: DataFrame) -> DataFrame:
    """Return a row for each record: its place in the topic, its value, and the day on which it was read."""
    return read.select(PLACE, "value", LANDED)


'''

_JSON: Final = '''\
def decoded(read: DataFrame) -> DataFrame:
    """Return each record with its decoded `body`; `error` is null if the value could be decoded.

    from_json reads blanks as null and ignores text after the first JSON value: it reads the value as an item of a list and of an object.
    """
    options = {"columnNameOfCorruptRecord": "_unread"}
    text = F.col("value").cast("string")
    items = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "ARRAY<STRING>")
    within = F.from_json(F.concat(F.lit('{"item":'), text, F.lit("}")), "item STRING, _unread STRING", options)
    is_one = F.coalesce((F.size(items) == 1) & within["_unread"].isNull(), F.lit(False))
    error = (
        F.when(F.col("value").isNull(), "no value")
        .when(text.rlike("^\\\\s*$"), "value: blank")
        .when(~is_one, "value: not one JSON value")
        .when(F.col("body._unread").isNotNull(), "no JSON of this schema")
    )
    body = F.from_json(text, f"{SCHEMA}, _unread STRING", options)
    return read.withColumn("body", body).withColumn("error", error)


def rows(read: DataFrame) -> DataFrame:
    """Return a row for each decoded record: its place in the topic, its fields, and the day on which it was read."""
    good = decoded(read).where("error IS NULL")
    return good.select(PLACE, "body.*", LANDED).drop("_unread")


def dead_letters(read: DataFrame) -> DataFrame:
    """Return the records that could not be decoded, unchanged, with the reason."""
    bad = decoded(read).where("error IS NOT NULL")
    return bad.select(PLACE, "value", "error", LANDED)


'''


def settings(decode: str | None) -> str:
    """Return the constants of a module."""
    return _SETTINGS + (_SETTINGS_SCHEMA if decode else "") + _KAFKA


def decoding(decode: str | None) -> str:
    """Return the functions that make rows of records."""
    return _JSON if decode == "json" else _PLAIN


# -- declarative --------------------------------------------------------------------------------------------------------------------------

DECLARATIVE_HEAD: Final = '''\
"""From the topic @topic@ to @target@: each record exactly once, even if a run is stopped."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

'''

TABLE: Final = '''\
@dp.table(name="@target@", format="@format@")
def @function@() -> DataFrame:
    """Return the rows of the topic."""
    return rows(records())


'''

TABLE_DEAD_LETTERS: Final = '''\
@dp.table(name="@dead@", format="@format@")
def @function@_dead_letters() -> DataFrame:
    """Return the records that could not be decoded, with the reason."""
    return dead_letters(records())
'''

SINK: Final = '''\
def written_to(topic: str) -> dict[str, str]:
    """Return the options of a sink: transactions, so that readers with isolation.level=read_committed see each record once."""
    return {**KAFKA, "topic": topic, "exactlyOnce": "true"}


dp.create_sink("@function@", "odradek", written_to("@target@"))


@dp.append_flow(target="@function@", name="@function@_records")
def @function@() -> DataFrame:
    """Return the records for the target topic."""
    return messages(rows(records()))


'''

SINK_DEAD_LETTERS: Final = '''\
dp.create_sink("@function@_dead_letters", "odradek", written_to("@dead@"))


@dp.append_flow(target="@function@_dead_letters", name="@function@_dead_letters_records")
def @function@_dead_letters() -> DataFrame:
    """Return the records that could not be decoded, unchanged, with the reason in a header."""
    return letters(dead_letters(records()))
'''

_MESSAGES_PLAIN: Final = '''\
def messages(found: DataFrame) -> DataFrame:
    """Return the records to write. Change them here if needed."""
    return found.select("kafka.key", "value")


'''

_MESSAGES_DECODED: Final = '''\
def messages(found: DataFrame) -> DataFrame:
    """Return the records to write: the fields as JSON, with the original key."""
    fields = [column for column in found.columns if column not in ("kafka", "landed")]
    return found.select("kafka.key", F.to_json(F.struct(*fields)).alias("value"))


def letters(found: DataFrame) -> DataFrame:
    """Return dead letters as records: key and value unchanged, the reason in a header."""
    reason = F.struct(F.lit("error").alias("key"), F.encode("error", "UTF-8").alias("value"))
    return found.select("kafka.key", "value", F.array(reason).alias("headers"))


'''


def messages(decode: str | None) -> str:
    """Return the functions that make records of rows."""
    return _MESSAGES_DECODED if decode else _MESSAGES_PLAIN


# -- jobs of streaming queries ------------------------------------------------------------------------------------------------------------

JOB_HEAD: Final = '''\
"""From the topic @topic@ to @target@: each record exactly once, even if a run is stopped.

A run reads the available records and ends. With spark.odradek.every (such as `1 minute`) in spark.conf it runs on and reads that often.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

HERE = Path(__file__).resolve().parent
'''

WRITE_TABLE: Final = '''\
def write(name: str, found: DataFrame) -> None:
    """Run the query that writes rows to a table."""
    every = spark.conf.get("spark.odradek.every", None)
    query = found.writeStream.format("@format@").queryName(name).partitionBy("landed")
    query = query.option("path", (HERE / "tables" / name).as_uri()).option("checkpointLocation", (HERE / "checkpoints" / name).as_uri())
    running = query@merge@.trigger(**({"processingTime": every} if every else {"availableNow": True})).start()
    if not every:
        running.awaitTermination()


'''

WRITE_TOPIC: Final = '''\
def write(name: str, found: DataFrame) -> None:
    """Run the query that writes records to a topic in transactions: readers with isolation.level=read_committed see each record once."""
    every = spark.conf.get("spark.odradek.every", None)
    query = found.writeStream.format("odradek").options(**KAFKA).queryName(name).option("topic", name).option("exactlyOnce", True)
    query = query.option("checkpointLocation", (HERE / "checkpoints" / name).as_uri())
    running = query.trigger(**({"processingTime": every} if every else {"availableNow": True})).start()
    if not every:
        running.awaitTermination()


'''

_WAIT: Final = """\
    spark.streams.awaitAnyTermination()  # only with spark.odradek.every; raises the error that ends a query
"""


def main_of_streams(decode: str | None, to: str) -> str:
    """Return the end of a job of streaming queries."""
    good, bad = ("rows(records())", "dead_letters(records())")
    if to == "topic":
        good, bad = (f"messages({good})", f"letters({bad})")
    writes = f'    write("@target@", {good})\n' + (f'    write("@dead@", {bad})\n' if decode else "")
    return f'if __name__ == "__main__":\n{writes}{_WAIT}'


# -- jobs of batches ----------------------------------------------------------------------------------------------------------------------

BATCH_HEAD: Final = '''\
"""From the topic @topic@ to the Iceberg table @target@: each record exactly once, even if a run is stopped.

A run reads the available records and ends; a scheduler starts the next run when it has ended. The table's snapshots keep the offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek.client import Consumer, TopicPartition

'''

LAND_BATCHES: Final = '''\
TABLE = "lake.topics."
NOTED = "odradek.offsets"


def ends() -> dict[str, int]:
    """Return the current end offset of each partition."""
    with Consumer({key.removeprefix("kafka."): value for key, value in KAFKA.items()}) as consumer:
        partitions = [TopicPartition(TOPIC, partition) for partition in consumer.partitions_for(TOPIC)]
        return {str(each.partition): offset for each, offset in consumer.end_offsets(partitions).items()}


def reached(table: str) -> dict[str, int]:
    """Return the offsets up to which the table has records: from its last snapshot with offsets or, if that has expired, from its rows."""
    noted = spark.sql(f"""
        SELECT summary['{NOTED}'] FROM {table}.snapshots JOIN {table}.history USING (snapshot_id)
        WHERE is_current_ancestor AND summary['{NOTED}'] IS NOT NULL ORDER BY committed_at DESC LIMIT 1
    """).first()
    if noted:
        return json.loads(noted[0])
    newest = spark.table(table).groupBy("kafka.partition").agg(F.max("kafka.offset")).collect()
    return {str(partition): offset + 1 for partition, offset in newest}


def between(start: dict[str, int], end: dict[str, int]) -> DataFrame:
    """Return the topic's records; a partition without a start is read from its beginning."""
    begin = {partition: start.get(partition, -2) for partition in end}
    source = spark.read.format("odradek").options(**KAFKA).option("subscribe", TOPIC)
    return source.option("startingOffsets", json.dumps({TOPIC: begin})).option("endingOffsets", json.dumps({TOPIC: end})).load()


def land(name: str, found: Callable[[DataFrame], DataFrame]) -> None:
    """Append the new records to a table: rows and offsets in one commit."""
    table, end = TABLE + name, ends()
    if not spark.catalog.tableExists(table):
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.topics")
        new = found(between({}, end)).limit(0).writeTo(table).using("iceberg").partitionedBy(F.col("landed"))
        new.tableProperty("write.spark.accept-any-schema", "true").create()
    start = reached(table)
    if start != end:
        adding = found(between(start, end)).writeTo(table).option("mergeSchema", True).option("check-ordering", False)
        adding.option(f"snapshot-property.{NOTED}", json.dumps(end)).append()


'''


def main_of_batches(decode: str | None) -> str:
    """Return the end of a job of batches."""
    lands = '    land("@target@", rows)\n' + ('    land("@dead@", dead_letters)\n' if decode else "")
    return f'if __name__ == "__main__":\n{lands}'
