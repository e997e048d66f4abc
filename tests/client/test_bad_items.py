"""What no request or batch can carry is refused by the call that is given it, and stops nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import AsyncConsumer, AsyncProducer, Consumer, ConsumerRecord, OffsetAndMetadata, Producer
from odradek.client.core.accumulator import Accumulator
from odradek.client.core.outgoing import checked_record, checked_topic, checked_values
from odradek.client.core.sender import BatchAnswer
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.records.batch import encode_batch
from tests.client.sender_support import CONFIG, Flight, SenderWorld

HALF = "\ud800"
BATCH = encode_batch([(0, None, b"x", ())])
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

BAD: dict[str, Callable[[Any, str], Any]] = {
    "value that is no content": lambda client, topic: client.send(topic, 5),
    "value with half a surrogate": lambda client, topic: client.send(topic, HALF),
    "key that is no content": lambda client, topic: client.send(topic, b"x", key=5),
    "key with half a surrogate": lambda client, topic: client.send(topic, b"x", key=HALF),
    "topic in bytes": lambda client, topic: client.send(topic.encode(), b"x"),
    "topic that is None": lambda client, topic: client.send(None, b"x"),
    "topic with half a surrogate": lambda client, topic: client.send(HALF, b"x"),
    "topic longer than a string of the protocol": lambda client, topic: client.send("x" * 40_000, b"x"),
    "partition that is text": lambda client, topic: client.send(topic, b"x", partition="0"),
    "partition that is no integer": lambda client, topic: client.send(topic, b"x", partition=0.0),
    "partition that is a bool": lambda client, topic: client.send(topic, b"x", partition=False),
    "partition beyond 32 bits": lambda client, topic: client.send(topic, b"x", partition=1 << 32),
    "headers that are text": lambda client, topic: client.send(topic, b"x", headers="kv"),
    "headers that are a number": lambda client, topic: client.send(topic, b"x", headers=5),
    "header that is None": lambda client, topic: client.send(topic, b"x", headers=[None]),
    "header that is text of two letters": lambda client, topic: client.send(topic, b"x", headers=["kv"]),
    "header without a value": lambda client, topic: client.send(topic, b"x", headers=[("k",)]),
    "header name in bytes": lambda client, topic: client.send(topic, b"x", headers=[(b"k", b"v")]),
    "header name that is None": lambda client, topic: client.send(topic, b"x", headers=[(None, b"v")]),
    "header name with half a surrogate": lambda client, topic: client.send(topic, b"x", headers={HALF: b"v"}),
    "header value that is no content": lambda client, topic: client.send(topic, b"x", headers={"k": 5}),
    "timestamp of 70 bits": lambda client, topic: client.send(topic, b"x", timestamp=1 << 70),
    "timestamp that is text": lambda client, topic: client.send(topic, b"x", timestamp="now"),
    "timestamp that is no integer": lambda client, topic: client.send(topic, b"x", timestamp=1.5),
    "timestamp of 64 bits without a sign": lambda client, topic: client.send(topic, b"x", timestamp=1 << 63),
    "timestamp beside a key": lambda client, topic: client.send(topic, b"x", key=b"k", timestamp="now"),
    "timestamp beside a callback": lambda client, topic: client.send(topic, b"x", timestamp="now", on_delivery=print),
    "callback that is none": lambda client, topic: client.send(topic, b"x", on_delivery=5),
    "one value among many": lambda client, topic: client.send_many(topic, [b"x", 5, b"x"]),
    "one text among many": lambda client, topic: client.send_many(topic, [b"x", HALF]),
    "text for many values": lambda client, topic: client.send_many(topic, "text"),
    "bytes for many values": lambda client, topic: client.send_many(topic, b"text"),
    "timestamp of many": lambda client, topic: client.send_many(topic, [b"x"], timestamp="now"),
    "partition of many": lambda client, topic: client.send_many(topic, [b"x"], partition="0"),
    "topic of many": lambda client, topic: client.send_many(HALF, [b"x"]),
    "batch that is a number": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), 61, 1),
    "batch that is none": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), b"x" * 61, 1),
    "batch that is cut off": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), BATCH[:-1], 1),
    "two batches": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), BATCH * 2, 1),
    "batch of another count": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), BATCH, 2),
    "batch with another checksum": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), BATCH[:-1] + b"\1", 1),
    "batch at a bad timestamp": lambda client, topic: client.send_encoded(TopicPartition(topic, 0), BATCH, 1, timestamp="now"),
    "rows of numbers": lambda client, topic: client.send_batch(topic, pa.record_batch({"value": [1]})),
    "rows at times that are text": lambda client, topic: client.send_batch(topic, pa.record_batch({"value": [b"x"], "timestamp": ["now"]})),
    "row with a header without a name": lambda client, topic: client.send_batch(
        topic, pa.record_batch({"value": [b"x", b"x"], "headers": pa.array([[], [{"key": None, "value": b"v"}]], HEADERS)})
    ),
    "row with a header that is null": lambda client, topic: client.send_batch(
        topic, pa.record_batch({"value": [b"x", b"x"], "headers": pa.array([[], [None]], HEADERS)})
    ),
    "row with headers that are numbers": lambda client, topic: client.send_batch(
        topic, pa.record_batch({"value": [b"x"], "headers": pa.array([7])})
    ),
    "partition of rows": lambda client, topic: client.send_batch(topic, pa.record_batch({"value": [b"x"]}), partition="0"),
}


WHERE = TopicPartition("t", 0)
BAD_READS: dict[str, Callable[[Any], Any]] = {
    "offset that is no integer": lambda client: client.commit({WHERE: 1.5}),
    "offset that is text": lambda client: client.commit({WHERE: "1"}),
    "offset beyond 63 bits": lambda client: client.commit({WHERE: 1 << 63}),
    "offset of an unfinished commit": lambda client: client.commit_async({WHERE: 1.5}),
    "metadata with half a surrogate": lambda client: client.commit({WHERE: OffsetAndMetadata(1, None, HALF)}),
    "metadata in bytes": lambda client: client.commit({WHERE: OffsetAndMetadata(1, None, b"m")}),  # type: ignore[arg-type]
    "epoch beyond 32 bits": lambda client: client.commit({WHERE: OffsetAndMetadata(1, 1 << 40)}),
    "offsets that are a list": lambda client: client.commit([WHERE]),
    "commit of a topic that is None": lambda client: client.commit({(None, 0): 1}),
    "position that is no integer": lambda client: client.seek(WHERE, 1.5),
    "position that is text": lambda client: client.seek(WHERE, "1"),
    "position beyond 63 bits": lambda client: client.seek(WHERE, 1 << 63),
    "position below 0": lambda client: client.seek(WHERE, -1),
    "no records of a poll": lambda client: client.poll(0, 0),
    "fewer than no records of a poll": lambda client: client.poll(0, -1),
    "assigned topic with half a surrogate": lambda client: client.assign([TopicPartition(HALF, 0)]),
    "assigned partition that is text": lambda client: client.assign([TopicPartition("t", "0")]),  # type: ignore[arg-type]
    "ends of a topic in bytes": lambda client: client.end_offsets([(b"t", 0)]),
    "committed of half a surrogate": lambda client: client.committed([(HALF, 0)]),
    "time that is text": lambda client: client.offsets_for_times({WHERE: "now"}),
}


def test_a_consumer_refuses_at_once_what_no_request_can_carry(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition(topic, 0), WHERE])
        taken: list[str] = []
        for name, call in BAD_READS.items():
            try:
                call(consumer)
            except (TypeError, ValueError):
                continue
            taken.append(name)
        assert taken == []
        consumer.unsubscribe()
        for bad in (HALF, b"t", "x" * 40_000):
            with pytest.raises((TypeError, ValueError)):
                consumer.subscribe([bad])  # type: ignore[list-item]
        consumer.assign([TopicPartition(topic, 0), WHERE])
        assert consumer.assignment() == {TopicPartition(topic, 0), WHERE}
        consumer.commit({TopicPartition(topic, 0): 3})
        assert consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(3)}


def test_an_asyncio_consumer_refuses_the_same(bootstrap: str, topic: str) -> None:
    async def story() -> list[str]:
        async with AsyncConsumer(bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(topic, 0), WHERE])
            taken: list[str] = []
            for name, call in BAD_READS.items():
                try:
                    result = call(consumer)
                    if asyncio.iscoroutine(result):
                        await result
                except (TypeError, ValueError):
                    continue
                taken.append(name)
            return taken

    assert asyncio.run(story()) == []


def test_what_is_bad_is_refused_at_once_and_nothing_else_stops(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        # Open batches for all ways of `send`, so that a bad record would get into one of them.
        waiting = [producer.send(topic, b"x"), producer.send(topic, b"x", key=b"k"), producer.send(topic, b"x", partition=0)]
        for name, call in BAD.items():
            with pytest.raises((TypeError, ValueError)):
                raise AssertionError(f"{name} was taken: {call(producer, topic)!r}")
        producer.flush()
        assert [future.exception() for future in waiting] == [None] * 3
        assert producer.send(topic, b"x", partition=2).result(10).offset >= 0


def test_the_asyncio_producer_refuses_the_same(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
            waiting = [await producer.send(topic, b"x"), await producer.send(topic, b"x", key=b"k")]
            for name, call in BAD.items():
                with pytest.raises((TypeError, ValueError)):
                    raise AssertionError(f"{name} was taken: {await call(producer, topic)!r}")
            await producer.flush()
            assert [future.exception() for future in waiting] == [None] * 2
            await producer.send_and_wait(topic, b"x", partition=2)

    asyncio.run(story())


def test_a_producer_with_hooks_refuses_the_same_records(bootstrap: str, topic: str) -> None:
    heard: list[BaseException | None] = []

    class Hearing:
        def on_acknowledgement(self, _: object, error: BaseException | None) -> None:
            heard.append(error)

    names = ("partition", "header", "timestamp", "callback", "topic")
    bad = {name: call for name, call in BAD.items() if name.startswith(names) and not name.endswith(("of many", "of rows"))}
    with Producer(bootstrap_servers=bootstrap, interceptor_classes=Hearing()) as producer:
        for name, call in bad.items():
            with pytest.raises((TypeError, ValueError)):
                raise AssertionError(f"{name} was taken: {call(producer, topic)!r}")
        producer.send(topic, b"x").result(10)
    assert heard[-1] is None
    assert len(heard) == len(bad) + 1


def test_text_among_many_values_is_sent_as_send_does(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        (future,) = producer.send_many(topic, ["text", b"bytes", None, bytearray(b"x")], partition=0)
        assert (future.record_count, future.result(10).offset) == (4, 0)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send_many(topic, [b"x", b"x" * 2_000_000], partition=0)
        assert producer.send_many(topic, iter([b"x"]), partition=0)[0].result(10).offset == 4  # type: ignore[arg-type]


def test_what_is_sent_is_what_was_given_though_it_waits_for_room_and_changes_meanwhile(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, buffer_memory=500, batch_size=500, linger_ms=20) as producer:
            value = bytearray(b"y" * 300)
            first = await producer.send(topic, b"x" * 400, partition=0)
            second = asyncio.create_task(producer.send(topic, value, partition=0, headers=iter([("k", b"v")])))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            value[:] = b"z" * 300
            assert (await first).offset == 0
            assert (await (await second)).offset == 1

    asyncio.run(story())
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[ConsumerRecord] = []
        while len(found) < 2:
            found += consumer.poll(1000)
    assert (found[1].value, found[1].headers) == (b"y" * 300, (("k", b"v"),))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters() | st.binary() | st.just(HALF),
    lambda each: st.lists(each, max_size=3) | st.tuples(each, each) | st.dictionaries(st.text() | st.just(HALF), each, max_size=2),
    max_leaves=6,
)


@given(value=ANYTHING, key=ANYTHING, partition=ANYTHING, headers=ANYTHING, timestamp=ANYTHING)
def test_whatever_passes_can_be_encoded(value: object, key: object, partition: object, headers: object, timestamp: object) -> None:
    for call in (
        lambda: checked_record(value, None, None, None, None),
        lambda: checked_record(None, key, partition, None, None),
        lambda: checked_record(None, None, None, headers, timestamp),
    ):
        try:
            record = call()
        except (TypeError, ValueError):
            continue
        batch = encode_batch([(record.timestamp or 0, record.key, record.value, record.headers)])
        assert len(batch) - 61 <= record.size


@given(values=ANYTHING)
def test_whatever_passes_as_many_values_can_be_encoded(values: object) -> None:
    try:
        found, sizes = checked_values(values)
    except (TypeError, ValueError):
        return
    assert sizes == [len(value or b"") for value in found]
    encode_batch([(0, None, value, ()) for value in found])


@given(topic=ANYTHING)
def test_whatever_passes_as_a_topic_can_be_asked_for(topic: object) -> None:
    try:
        name = checked_topic(topic)
    except (TypeError, ValueError):
        return
    MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]).encode(12)


def test_a_batch_that_cannot_be_encoded_fails_alone() -> None:
    world = SenderWorld(1, 0.0, partitions=2)
    world.leaders = [0, 0]
    world.sender.on_producer_id(7, 0)
    taken = [
        world.accumulator.append(TopicPartition("t", number), 0, None, value, (), world.now)  # type: ignore[arg-type]
        for number, value in ((0, "text"), (1, b"x"), (0, b"x"))
    ]
    world.accumulator.close(taken[0][0])  # type: ignore[index]
    world.now += 100
    world.turn()
    (bad, _), (other, _), _ = taken  # type: ignore[misc]
    assert isinstance(bad.error, KafkaError)
    assert bad.error.code is ErrorCode.INVALID_RECORD
    assert other in world.sender.incomplete()


def test_a_batch_that_is_too_large_and_cannot_be_divided_fails_alone() -> None:
    world = Flight(1)
    dispatch, _ = world.wire[0].popleft()
    batch = dispatch.batches[0]
    batch.payload = b"\0" * 61
    batch.hold(2, 100)
    world.sender.on_response(dispatch, [BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)], world.now)
    assert isinstance(batch.error, KafkaError)
    assert isinstance(world.accumulator, Accumulator)
    assert CONFIG.idempotent
    world.add(1)
    assert world.flying
