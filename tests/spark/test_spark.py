"""The data source in Spark: one session and one broker for all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import OdradekBroker
from odradek.client import Admin, NewTopic, Producer
from odradek.spark.environment import use_this_python

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

use_this_python()
pyspark_sql = pytest.importorskip("pyspark.sql")

from pyspark.sql import functions as F  # noqa: E402

from odradek.spark.recipes import blocks  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = OdradekBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pyspark_sql.SparkSession]:
    builder = (
        pyspark_sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    )
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def reader(spark: pyspark_sql.SparkSession, bootstrap: str, topic: str, **options: str) -> pyspark_sql.DataFrame:
    return spark.read.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).options(**options).load()


def test_rows_are_those_of_the_connector(spark: pyspark_sql.SparkSession, bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("rows", 2, 1)])
    # Recent times: retention takes old ones away.
    now = int(time.time()) * 1000
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        producer.send("rows", b"one", key=b"k", partition=0, headers={"h": b"1"}, timestamp=now + 1000)
        producer.send("rows", None, partition=1, timestamp=now + 2000)
        producer.send("rows", b"three", partition=1, timestamp=now + 3000)
    rows = reader(spark, bootstrap, "rows", includeHeaders="true").orderBy("timestamp").collect()
    assert [(row.key, row.value, row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (b"k", b"one", "rows", 0, 0, 0),
        (None, None, "rows", 1, 0, 0),
        (None, b"three", "rows", 1, 1, 0),
    ]
    assert [row.timestamp.timestamp() - now / 1000 for row in rows] == [1.0, 2.0, 3.0]
    assert rows[0].headers[0].asDict() == {"key": "h", "value": b"1"}
    assert rows[1].headers is None
    part = {"startingOffsets": json.dumps({"rows": {"0": -2, "1": 1}}), "endingOffsets": json.dumps({"rows": {"0": 0, "1": -1}})}
    assert [row.value for row in reader(spark, bootstrap, "rows", **part).collect()] == [b"three"]
    with pytest.raises(Exception, match="ends at 1"):
        reader(spark, bootstrap, "rows", endingOffsets=json.dumps({"rows": {"0": 5, "1": 2}})).collect()


def test_what_is_written_is_read_by_stream_and_batch(spark: pyspark_sql.SparkSession, bootstrap: str, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("source", 3, 1), NewTopic("target", 2, 1)])
    rows = spark.range(1000).selectExpr("cast(id as string) key", "concat('v', id) value", "'source' topic")
    rows.write.format("odradek").option("kafka.bootstrap.servers", bootstrap).mode("append").save()
    stream = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "source")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .load()
    )
    for _ in range(2):  # The second run finds nothing new in its checkpoint.
        query = (
            stream.select("key", "value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "target")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(200)
    read = reader(spark, bootstrap, "target").collect()
    assert sorted(row.value for row in read) == sorted(f"v{number}".encode() for number in range(1000))
    by_key = {row.key: row.partition for row in read}
    from odradek.client.core.partitioner import partition_for_key

    assert all(partition == partition_for_key(key, 2) for key, partition in by_key.items())


def test_many_small_partitions_are_each_read_once(spark: pyspark_sql.SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """Tasks follow one another in one worker, with one client; partitions without records are no tasks."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("many", 60, 1)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(300):
            producer.send("many", b"%d" % number, partition=number % 30 * 2)
    assert reader(spark, bootstrap, "many").rdd.getNumPartitions() == 30
    stream = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "many")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "150")
        .load()
    )
    target = str(tmp_path / "rows")
    writing = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writing.trigger(availableNow=True).start(target)
    assert query.awaitTermination(200)
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [150, 150]
    rows = spark.read.parquet(target).collect()
    assert sorted((row.partition, row.offset, int(row.value)) for row in rows) == sorted(
        (number % 30 * 2, number // 30, number) for number in range(300)
    )


def committed(spark: pyspark_sql.SparkSession, bootstrap: str, topic: str) -> list[str]:
    rows = reader(spark, bootstrap, topic, **{"kafka.isolation.level": "read_committed"})
    return sorted(row.value.decode() for row in rows.collect())


def test_a_stream_is_written_exactly_once_also_when_the_end_of_a_batch_is_forgotten(
    spark: pyspark_sql.SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("numbers", 3, 1), NewTopic("copies", 2, 1)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(90):
            producer.send("numbers", f"{number}", partition=number % 3)
    checkpoint = tmp_path / "checkpoint"

    def copy() -> None:
        stream = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "numbers")
        query = (
            stream.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "30")
            .load()
            .select("value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "copies")
            .option("exactlyOnce", True)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(200)

    copy()
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    assert int(last.name) == 2
    # As if the driver had ended after it had written the batch, and before Spark noted it.
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    copy()
    assert committed(spark, bootstrap, "copies") == sorted(f"{number}" for number in range(90))


def test_a_query_under_the_name_of_another_is_refused(spark: pyspark_sql.SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """By the ids of queries, which Spark tells the tasks of the sink and those of batches that `foreachBatch` writes."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("few", 1, 1), NewTopic("named", 1, 1)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("few", b"1", partition=0)
    to = {"kafka.bootstrap.servers": bootstrap, "topic": "named", "exactlyOnce": "true", "txnAppId": "named"}
    few = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "few")
    read = few.option("startingOffsets", "earliest").load().select("value").writeStream.trigger(availableNow=True)

    def write(rows: pyspark_sql.DataFrame, batch: int) -> None:
        rows.write.format("odradek").options(**to, txnVersion=batch).mode("append").save()

    first = read.format("odradek").options(**to).option("checkpointLocation", str(tmp_path / "one")).start()
    assert first.awaitTermination(200)
    second = read.foreachBatch(write).option("checkpointLocation", str(tmp_path / "two")).start()
    with pytest.raises(Exception, match=f"belongs to query {first.id}, whose last batch is 0, and this is query {second.id}"):
        second.awaitTermination(200)
    assert committed(spark, bootstrap, "named") == ["1"]


def test_a_batch_is_written_exactly_once(spark: pyspark_sql.SparkSession, bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("nights", 2, 1)])
    rows = spark.range(50).selectExpr("concat('v', id) value").repartition(3)
    writing = (
        rows.write.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", "nights").option("exactlyOnce", True)
    )
    for version in (1, 1, 2):
        writing.option("txnAppId", "nightly").option("txnVersion", version).mode("append").save()
    assert committed(spark, bootstrap, "nights") == sorted([f"v{number}" for number in range(50)] * 2)


def test_a_batch_that_fails_leaves_nothing(spark: pyspark_sql.SparkSession, bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("broken", 2, 1)])
    rows = spark.range(40).selectExpr("if(id = 30, raise_error('thirty'), concat('v', id)) value").repartition(4)
    writing = (
        rows.write.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", "broken").option("exactlyOnce", True)
    )
    with pytest.raises(Exception, match="thirty"):
        writing.option("txnAppId", "broken").option("txnVersion", 1).mode("append").save()
    assert committed(spark, bootstrap, "broken") == []
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert [each for each in admin.list_transactions(states=["Ongoing"]) if "/broken/" in each.transactional_id] == []


def test_conditions_are_pushed_where_spark_allows_it(spark: pyspark_sql.SparkSession, bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("pushed", 3, 1)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(30):
            producer.send("pushed", f"{number}", partition=number % 3)
    wanted = "partition = 1 and offset >= 4 and timestamp > timestamp '2020-01-01'"
    plain = {row.value for row in reader(spark, bootstrap, "pushed").where(wanted).collect()}
    assert len(plain) == 6
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        narrowed = reader(spark, bootstrap, "pushed", pushFilters="true").where(wanted)
        assert narrowed.rdd.getNumPartitions() == 1
        assert {row.value for row in narrowed.collect()} == plain
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_log_directories_are_read_without_the_broker(spark: pyspark_sql.SparkSession, tmp_path: Path) -> None:
    broker = OdradekBroker(tmp_path)
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("left", 2, 1)])
    with Producer(bootstrap_servers=broker.bootstrap, compression_type="zstd") as producer:
        for number in range(20):
            producer.send("left", f"{number}", partition=number % 2)
    broker.stop()
    (directory,) = {path.parent.parent for path in tmp_path.rglob("left-0/*.log")}
    rows = spark.read.format("odradek-log").load(str(directory)).where("topic = 'left'")
    assert sorted(int(row.value) for row in rows.collect()) == list(range(20))


def test_a_recipe_makes_a_row_of_exactly_one_json_value(spark: pyspark_sql.SparkSession) -> None:
    """What from_json takes for nulls, or does not look at, is a dead letter with its reason."""
    names = {
        "DataFrame": pyspark_sql.DataFrame,
        "F": F,
        "SCHEMA": "id BIGINT",
        "PLACE": F.lit(1).alias("kafka"),
        "LANDED": F.current_date(),
    }
    exec("from __future__ import annotations\n" + blocks.decoding("json"), names)
    good = [b'{"id":1}', b' {"id":2}\n', b"{}", '{"id":3,"other":["é"]}'.encode()]
    blank = [b"", b"  ", b"\t\r\n"]
    several = [b'{"id":5}{"id":6}', b'{"id":5} {"id":6}', b'{"id":5},{"id":6}', b'{"id":5}],[', b'{"id":5}} x', b'{"id":5} x', b'{"id":']
    bad = [b'{"id":"x"}', b'[{"id":5}]', b"7"]
    read = spark.createDataFrame([(value,) for value in (*good, *blank, *several, *bad, None)], "value binary")
    assert sorted(row.id or 0 for row in names["rows"](read).collect()) == [0, 1, 2, 3]
    reasons = {None if row.value is None else bytes(row.value): row.error for row in names["dead_letters"](read).collect()}
    assert reasons == {
        None: "no value",
        **dict.fromkeys(blank, "value: blank"),
        **dict.fromkeys(several, "value: not one JSON value"),
        **dict.fromkeys(bad, "no JSON of this schema"),
    }


def test_wrong_options_and_columns_are_named(spark: pyspark_sql.SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="Exactly one of the options assign, subscribe, subscribePattern must be given"):
        reader(spark, bootstrap, "rows", subscribePattern="x").collect()
    with pytest.raises(Exception, match="Required column 'value'"):
        spark.range(1).write.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", "t").mode("append").save()
