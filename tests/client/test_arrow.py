"""Arrow batches in and out: what is sent is what is read, at the partitions of single records, and errors come before records."""

from __future__ import annotations

import asyncio
import datetime
import sys
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from odradek.base.errors import KafkaError, OdradekError
from odradek.client import Admin, AsyncConsumer, AsyncProducer, ConfigChange, ConfigResource, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.consumer.arrow import chunk_to_arrow
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.core.partitioner import partition_for_key
from odradek.client.core.positions import Chunk
from odradek.records.batch import encode_batch
from odradek.testing.kit.embedded import unique_name

PARTITIONS = 4


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = unique_name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)])
    return name


def read(bootstrap: str, topic: str, rows: int, *, headers: bool = False) -> dict[int, list[dict[str, Any]]]:
    """All rows by partition."""
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in range(PARTITIONS)}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        while sum(map(len, found.values())) < rows:
            batch = consumer.next_batch(10_000, headers=headers)
            assert batch is not None
            for row in batch.to_pylist():
                found[row["partition"]].append(row)
    return found


def test_rows_go_where_their_keys_would_and_come_back_in_order(bootstrap: str, topic: str) -> None:
    keys = [b"key-%d" % (number % 50) for number in range(2000)]
    rows = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array([str(number) for number in range(2000)])})
    with Producer(bootstrap_servers=bootstrap) as producer:
        futures = producer.send_batch(topic, rows)
        producer.flush()
        assert sum(future.record_count for future in futures) == 2000
        assert {future.result().partition for future in futures} == set(range(PARTITIONS))
    for number, found in read(bootstrap, topic, 2000).items():
        mine = [index for index, key in enumerate(keys) if partition_for_key(key, PARTITIONS) == number]
        assert [(row["key"], row["value"]) for row in found] == [(keys[index], b"%d" % index) for index in mine]
        assert [row["offset"] for row in found] == list(range(len(mine)))


def test_rows_without_keys_share_batches(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=1000) as producer:
        futures = producer.send_batch(topic, pa.record_batch({"value": pa.array([b"%03d" % number for number in range(300)])}))
        producer.flush()
    assert 3 <= len(futures) <= 5  # of about 1,000 bytes each
    assert sorted(row["value"] for found in read(bootstrap, topic, 300).values() for row in found) == [b"%03d" % n for n in range(300)]


def test_keys_of_rows_may_be_ignored(bootstrap: str, topic: str) -> None:
    rows = pa.record_batch({"key": pa.array([b"%d" % number for number in range(50)]), "value": pa.array(["x"] * 50)})
    with Producer(bootstrap_servers=bootstrap, partitioner_ignore_keys=True) as producer:
        assert len({future.result(30).partition for future in producer.send_batch(topic, rows)}) == 1
    with Producer(bootstrap_servers=bootstrap, value_serializer="json") as producer, pytest.raises(OdradekError, match="send_batch"):
        producer.send_batch(topic, rows)


def test_rows_that_come_together_make_large_batches_which_are_split_where_the_topic_wants_it(bootstrap: str, topic: str) -> None:
    rows = pa.record_batch({"value": [b"%0999d" % number for number in range(500)]})
    with Producer(bootstrap_servers=bootstrap) as producer, Admin(bootstrap_servers=bootstrap) as admin:
        assert [future.record_count for future in producer.send_batch(topic, rows, partition=0)] == [500]
        admin.incremental_alter_configs({ConfigResource("topic", topic): [ConfigChange("max.message.bytes", "20000")]})
        producer.send_batch(topic, rows, partition=1)
        producer.flush()
    found = read(bootstrap, topic, 1000)
    assert [[row["value"] for row in found[number]] for number in (0, 1)] == [rows.column("value").to_pylist()] * 2


def test_partitions_of_rows_and_of_all_rows(bootstrap: str, topic: str) -> None:
    rows = pa.table({"value": [b"a", b"b", b"c"], "partition": pa.array([2, 0, 2])})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, rows)
        producer.send_batch(topic, rows.select(["value"]), partition=1)
    found = read(bootstrap, topic, 6)
    assert {number: [row["value"] for row in rows] for number, rows in found.items()} == {
        0: [b"b"],
        1: [b"a", b"b", b"c"],
        2: [b"a", b"c"],
        3: [],
    }


def test_times_headers_and_nulls(bootstrap: str, topic: str) -> None:
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
    rows = pa.record_batch(
        {
            "key": pa.array([None, b"k"], pa.binary()),
            "value": pa.array([b"v", None], pa.binary()),
            "timestamp": pa.array([when, None], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []], pa.list_(entry)),
        }
    )
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, rows, partition=0)
    first, second = read(bootstrap, topic, 2, headers=True)[0]
    assert (first["key"], first["value"], first["timestamp"]) == (None, b"v", when)
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert (second["key"], second["value"], second["headers"]) == (b"k", None, [])
    assert before <= second["timestamp"] <= datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize(
    ("rows", "partition", "error", "words"),
    [
        ({"value": [b"a", b"b"], "partition": [0, 9]}, None, ValueError, "has partitions 0 to 3, but a row names partition 9"),
        ({"value": [b"a"]}, 9, ValueError, "has partitions 0 to 3, but a row names partition 9"),
        ({"value": [b"a"], "partition": [0]}, 1, ValueError, "not both"),
        ({"value": [b"a"], "colour": ["red"]}, None, ValueError, "'colour'"),
        ({"key": [b"a"]}, None, KeyError, "value"),
        ({"value": [b"a", b"x" * 3_000_000]}, 0, KafkaError, "max.request.size"),
    ],
)
def test_what_cannot_be_sent(
    bootstrap: str, topic: str, rows: dict[str, list[object]], partition: int | None, error: type[Exception], words: str
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(error, match=words):
            producer.send_batch(topic, pa.record_batch(rows), partition=partition)
        producer.flush()
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)])
    assert sum(ends.values()) == (1 if error is KafkaError else 0)


def test_the_asyncio_clients_do_the_same(bootstrap: str, topic: str) -> None:
    async def story() -> list[bytes]:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            futures = await producer.send_batch(topic, pa.record_batch({"value": [b"a", b"b"]}), partition=3)
            assert (await futures[0]).offset == 0
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 3)])
            async for batch in consumer.batches():
                assert await consumer.position(TopicPartition(topic, 3)) == 2
                return batch.column("value").to_pylist()  # type: ignore[no-any-return]
        raise AssertionError

    assert asyncio.run(story()) == [b"a", b"b"]


def test_what_a_member_of_a_group_got_as_a_batch_is_committed(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_batch(topic, pa.record_batch({"value": [b"a", b"b", b"c"]}), partition=0)
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        for batch in consumer.batches():
            assert batch.num_rows == 3
            break
        consumer.commit()
        assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 3  # type: ignore[union-attr]


def test_nothing_in_time_and_deserializers(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.next_batch(50) is None
    with Consumer(bootstrap_servers=bootstrap, value_deserializer="json") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(OdradekError, match="deserializers"):
            consumer.next_batch(50)


def test_what_is_not_wanted_of_a_chunk_is_left_out() -> None:
    plain = encode_batch([(1, None, b"%d" % number, ()) for number in range(4)], base_offset=10)
    aborted = encode_batch([(1, None, b"gone", ())], base_offset=14, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    chunk = Chunk(TopicPartition("t", 0), 12, 15, memoryview(plain + aborted), [(7, 14)])
    for read_committed, values in ((True, [b"2", b"3"]), (False, [b"2", b"3", b"gone"])):
        batch = chunk_to_arrow(chunk, read_committed=read_committed, check_crcs=True, headers=False)
        assert batch.column("value").to_pylist() == values
    broken = bytearray(plain)
    broken[-1] ^= 1
    chunk = chunk._replace(buffer=memoryview(broken))
    with pytest.raises(KafkaError, match="checksum"):
        chunk_to_arrow(chunk, read_committed=True, check_crcs=True, headers=False)


def _hands_out(engine: ConsumerEngine, chunks: list[Chunk], monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The engine's next chunks are these, one after the other; returns the fetcher, which takes note of what is sought."""

    async def ready(_: float, *, decoded: bool) -> bool:
        assert not decoded
        if chunks:
            engine.hand_out.put(chunks.pop(0))
        return not engine.hand_out.is_empty

    fetcher = Mock(wraps=engine.fetcher, rewind=Mock())
    monkeypatch.setattr(engine, "ready", ready)
    monkeypatch.setattr(engine, "fetcher", fetcher)
    return fetcher


def test_chunks_without_a_wanted_row_are_passed_over_and_corrupt_ones_are_not(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = TopicPartition("t", 0)
    aborted = encode_batch([(1, None, b"gone", ())], base_offset=14, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    plain = encode_batch([(1, None, b"here", ())], base_offset=15)
    broken = bytearray(plain)
    broken[-1] ^= 1

    async def story() -> None:
        async with AsyncConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
            chunks = [
                Chunk(where, 14, 15, memoryview(aborted), [(7, 14)]),
                Chunk(where, 15, 16, memoryview(plain), []),
                Chunk(where, 15, 16, memoryview(broken), []),
            ]
            fetcher = _hands_out(consumer.engine, chunks, monkeypatch)
            batch = await consumer.next_batch(1000)
            assert batch is not None
            assert batch.column("value").to_pylist() == [b"here"]
            with pytest.raises(KafkaError, match="checksum"):
                await consumer.next_batch(1000)
            fetcher.rewind.assert_called_once_with(where, 15, -1)

    asyncio.run(story())


def test_without_pyarrow_it_says_what_to_install(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.record_batch({"value": [b"a"]})
    with Producer(bootstrap_servers=bootstrap) as producer, Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(OdradekError, match=r"pip install 'odradek\[arrow\]'"):
            producer.send_batch(topic, rows)
        with pytest.raises(OdradekError, match=r"pip install 'odradek\[arrow\]'"):
            consumer.next_batch(10)
