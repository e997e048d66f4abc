"""Buffers of batches are used again as soon as nobody reads them any more, and not before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client import Producer
from odradek.client.core.accumulator import Accumulator, Batch
from odradek.client.core.buffers import BufferPool
from odradek.client.core.sender import BatchAnswer, Dispatch, Sender, SenderConfig
from odradek.client.producer.arrow import RowEncoder
from odradek.records.arrow import encode_from_arrow
from odradek.records.batch import check_crc, decode_records, encode_batch, encode_batch_in, read_header
from odradek.records.compression import Compression
from odradek.testing.kit.embedded import unique_name
from tests.client.sender_support import CONFIG, view_of

PLACE = TopicPartition("t", 0)
SIZE = 1000


class TestPool:
    def test_a_buffer_that_was_given_back_is_taken_again(self) -> None:
        pool = BufferPool(SIZE)
        buffer = pool.take(900)
        assert len(buffer) == SIZE
        pool.give(memoryview(buffer)[:900])
        assert pool.take(SIZE) is buffer
        assert pool.take(SIZE) is not buffer

    def test_a_buffer_is_at_most_twice_as_large_as_what_it_is_for(self) -> None:
        pool = BufferPool(SIZE, 2 * SIZE)
        assert [len(pool.take(needed)) for needed in (1, 499, 500, 1000, 1001, 2000, 2001)] == [1, 499, 1000, 1000, 2000, 2000, 2001]

    def test_what_is_not_of_the_pool_is_left_alone(self) -> None:
        pool = BufferPool(SIZE)
        for payload in (None, b"x" * SIZE, memoryview(b"x" * SIZE), memoryview(bytearray(SIZE + 1))[:SIZE]):
            pool.give(payload)
        # None of them: what is taken can be written, and was nobody's.
        assert pool.take(SIZE) == bytearray(SIZE)

    def test_few_are_kept(self) -> None:
        pool = BufferPool(4 << 20)
        buffers = [pool.take(4 << 20) for _ in range(3)]
        for buffer in buffers:
            pool.give(memoryview(buffer))
        taken = [pool.take(4 << 20) for _ in range(3)]
        assert [any(one is buffer for buffer in buffers) for one in taken] == [True, True, False]


class BuffersWorld:
    """A sender whose requests are answered by hand."""

    def __init__(self, **settings: object) -> None:
        config = SenderConfig(**{**CONFIG._asdict(), "batch_size": SIZE, **settings})  # type: ignore[arg-type]
        self.accumulator = Accumulator(SIZE, 0, 1 << 20)
        self.sender = Sender(config, self.accumulator, Backoff(1, 1, random.Random(1)))
        self.now = 0
        if config.idempotent:
            self.sender.on_producer_id(7, 0)

    def fill(self, value: bytes = b"x" * 900) -> Batch:
        """A batch that takes one of the pool's buffers."""
        taken = self.accumulator.append(PLACE, 0, None, value, (), self.now)
        assert taken is not None
        return taken[0]

    def send(self) -> Dispatch:
        self.now += 100
        return self.sender.poll(view_of([0]), lambda _: True, self.now).dispatches[0]

    def answer(self, dispatch: Dispatch, error: ErrorCode = ErrorCode.NONE) -> None:
        self.sender.on_response(dispatch, [BatchAnswer(error, 0)], self.now)


def buffer_of(dispatch: Dispatch) -> object:
    payload = dispatch.batches[0].payload
    assert type(payload) is memoryview
    return payload.obj


def test_the_buffer_of_an_acknowledged_batch_is_used_again() -> None:
    world = BuffersWorld()
    world.fill()
    first = world.send()
    buffer = buffer_of(first)
    world.answer(first)
    assert first.batches[0].payload is None
    world.fill(b"y" * 900)
    second = world.send()
    assert buffer_of(second) is buffer
    payload = second.batches[0].payload
    assert payload is not None
    assert [record.value for record in decode_records(payload)] == [b"y" * 900]


def test_a_buffer_that_may_still_be_sent_is_not_used_again() -> None:
    world = BuffersWorld()
    world.fill()
    first = world.send()
    buffer, content = buffer_of(first), bytes(first.batches[0].payload or b"")
    # It may still be on its way to that node when another one acknowledges it.
    world.sender.on_failure(first, KafkaError(ErrorCode.REQUEST_TIMED_OUT), world.now)
    again = world.send()
    world.answer(again)
    world.fill(b"y" * 900)
    assert buffer_of(world.send()) is not buffer
    assert buffer == content.ljust(SIZE, b"\0")


def test_a_buffer_is_not_used_again_without_an_acknowledgement() -> None:
    world = BuffersWorld(acks=0, idempotent=False)
    world.fill()
    first = world.send()
    buffer = buffer_of(first)
    world.sender.on_sent_without_answer(first)
    world.fill(b"y" * 900)
    assert buffer_of(world.send()) is not buffer


def test_one_buffer_is_enough_for_batches_that_are_compressed() -> None:
    world = BuffersWorld(compression=Compression.LZ4)
    taken = [world.sender.buffers.take(SIZE)]
    world.sender.buffers.give(memoryview(taken[0]))
    for _ in range(3):
        world.fill()
        dispatch = world.send()
        assert type(dispatch.batches[0].payload) is bytes
        world.answer(dispatch)
    assert world.sender.buffers.take(SIZE) is taken[0]


def rows(count: int = 20) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%040d" % number for number in range(count)], pa.binary())})


def test_rows_get_their_place_in_the_order_where_they_are() -> None:
    world = BuffersWorld()
    payload = next(encode_from_arrow(rows(), room=world.sender.buffers.take))
    world.accumulator.append_encoded(PLACE, payload, 20, world.now)
    dispatch = world.send()
    assert dispatch.batches[0].payload is payload
    header = read_header(payload)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 0, 0, 20)
    assert check_crc(payload, 0, header)


def test_what_was_sent_is_not_changed_when_it_is_numbered_anew() -> None:
    world = BuffersWorld()
    payload = next(encode_from_arrow(rows(), room=world.sender.buffers.take))
    world.accumulator.append_encoded(PLACE, payload, 20, world.now)
    first = world.send()
    content = bytes(payload)
    # The broker has lost the producer's state: the batch is sent again with the next epoch.
    world.answer(first, ErrorCode.UNKNOWN_PRODUCER_ID)
    again = world.send().batches[0].payload
    assert again is not None
    assert read_header(again).producer_epoch == 1
    assert payload == content


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("size", [0, 100, 10_000])
def test_a_batch_in_a_buffer_is_the_batch_without_one(compression: Compression, size: int) -> None:
    records = [(number, b"k", b"v" * 100, [("h", None)]) for number in range(50)]
    written = encode_batch_in(
        bytearray(size), records, compression=compression, level=None, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True
    )
    assert written == encode_batch(records, compression=compression, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)


def test_rows_are_encoded_when_they_are_asked_for() -> None:
    made: list[int] = []

    def room(size: int) -> bytearray:
        made.append(size)
        return bytearray(size)

    table = pa.Table.from_batches([rows(), rows()])
    encoded = RowEncoder(500, Compression.NONE, None, room=room).encode("t", table, [0, 1], None, 0)
    assert made == []
    first = next(encoded)
    assert made == [500]
    assert 1 <= first.record_count < 20
    assert first.record_count + sum(each.record_count for each in encoded) == 40


def test_rows_that_are_wrong_are_refused_before_any_is_encoded() -> None:
    def late(table: pa.Table, partition: int | None = None) -> Iterator[object]:
        return RowEncoder(500, Compression.NONE, None).encode("t", table, [0, 1], partition, 0)

    good = pa.record_batch({"value": ["a"], "partition": pa.array([1], pa.int32())})
    bad = pa.record_batch({"value": ["a"], "partition": pa.array([2], pa.int32())})
    with pytest.raises(ValueError, match="a row names partition 2"):
        late(pa.Table.from_batches([good, bad]))
    with pytest.raises(ValueError, match="not both"):
        late(pa.Table.from_batches([good]), 1)
    with pytest.raises(KeyError, match="value"):
        late(pa.table({"key": ["a"]}))


@pytest.mark.parametrize("of", [bytes, bytearray, lambda batch: memoryview(bytearray(batch))])
def test_a_batch_of_somebody_else_is_left_as_it_is(of: Callable[[bytes], bytes], bootstrap: str) -> None:
    """Also where its size is that of the producer's own buffers."""
    batch = encode_batch([(int(time.time() * 1000), None, b"mine", ())])
    given = of(batch)
    topic = unique_name()
    with Producer(bootstrap_servers=bootstrap, batch_size=len(batch)) as producer:
        producer.send(topic, b"first", partition=0).result(30)
        producer.send_encoded(TopicPartition(topic, 0), given, 1).result(30)
        producer.send(topic, b"x" * 10, partition=0).result(30)
    assert given == batch
