"""Batches respect batch.size, linger.ms and buffer.memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.client.core.accumulator import Accumulator, Batch, record_size, sequence_before
from odradek.records.batch import HEADER_SIZE, encode_batch

TP = TopicPartition("t", 0)


def add(accumulator: Accumulator, value: bytes, now_ms: int = 0) -> tuple[Batch, int] | None:
    return accumulator.append(TP, 0, None, value, (), now_ms)


def test_a_batch_waits_for_linger_and_goes_at_once_when_full() -> None:
    accumulator = Accumulator(batch_size=200, linger_ms=5, buffer_memory=10_000)
    add(accumulator, b"x" * 20, now_ms=100)
    queue = accumulator.queues[TP]
    assert accumulator.ready_in_ms(queue[0], queue, 100) == 5
    assert accumulator.ready_in_ms(queue[0], queue, 104) == 1
    assert accumulator.ready_in_ms(queue[0], queue, 105) == 0
    add(accumulator, b"x" * 190, now_ms=100)
    assert len(queue) == 2
    assert accumulator.ready_in_ms(queue[0], queue, 100) == 0


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    accumulator = Accumulator(batch_size=100, linger_ms=0, buffer_memory=10_000)
    for value in (b"a", b"b" * 500, b"c"):
        add(accumulator, value)
    assert [batch.record_count for batch in accumulator.queues[TP]] == [1, 1, 1]


def test_memory_is_refused_when_full_and_given_back_on_release() -> None:
    accumulator = Accumulator(batch_size=100, linger_ms=0, buffer_memory=400)
    taken = [add(accumulator, b"x" * 60) for _ in range(5)]
    assert taken[0] is not None
    assert taken[-1] is None
    batch = accumulator.queues[TP].popleft()
    accumulator.release(batch)
    assert add(accumulator, b"x" * 60) is not None


def test_memory_is_refused_to_a_new_batch_and_to_the_open_one() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0, buffer_memory=300)
    assert add(accumulator, b"x" * 150) is not None
    assert add(accumulator, b"x" * 150) is None, "to the open batch"
    assert accumulator.append(TopicPartition("t", 1), 0, None, b"x" * 100, (), 0) is None, "to another"
    assert accumulator.append_encoded(TP, b"x" * 200, 1, 0) is None
    assert accumulator.used <= 300


def test_a_closed_batch_takes_no_more_records_and_gives_back_what_it_did_not_use() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0, buffer_memory=10_000)
    taken = add(accumulator, b"a")
    assert taken is not None
    batch, _ = taken
    assert accumulator.used == 1000
    gatherer = batch.gatherer
    assert gatherer is not None
    accumulator.close(batch)
    accumulator.close(batch)
    assert accumulator.used == batch.size == HEADER_SIZE + record_size(None, b"a", ())
    assert gatherer.take(None, b"b", 1) is None
    again = add(accumulator, b"b")
    assert again is not None
    assert again[0] is not batch
    assert [each.record_count for each in accumulator.queues[TP]] == [1, 1]


def test_nothing_gets_into_a_batch_once_another_follows_it() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0, buffer_memory=10_000)
    taken = add(accumulator, b"a")
    assert taken is not None
    gatherer = taken[0].gatherer
    assert gatherer is not None
    assert gatherer.take(None, b"b", 1) is not None
    accumulator.append_encoded(TP, b"x" * 200, 1, 0)
    assert gatherer.take(None, b"c", 1) is None
    assert taken[0].record_count == 2
    assert accumulator.used == sum(batch.reserved for batch in accumulator.queues[TP])


@pytest.mark.parametrize("how", ["expired", "drained"])
def test_what_is_taken_out_takes_no_more_records(how: str) -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=0, buffer_memory=10_000)
    taken = add(accumulator, b"a")
    assert taken is not None
    gatherer = taken[0].gatherer
    assert gatherer is not None
    (batch,) = accumulator.expired(50, 50) if how == "expired" else accumulator.drain_all()
    assert gatherer.take(None, b"b", 1) is None
    accumulator.release(batch)
    assert accumulator.used == 0


def test_repeated_batches_return_to_their_place() -> None:
    accumulator = Accumulator(batch_size=1, linger_ms=0, buffer_memory=10_000)
    batches = []
    for number in range(4):
        taken = add(accumulator, b"a")
        assert taken is not None
        taken[0].base_sequence = (0x7FFFFFFE + number) & 0x7FFFFFFF
        batches.append(taken[0])
    add(accumulator, b"new")
    queue = accumulator.queues[TP]
    sent = [queue.popleft() for _ in range(4)]
    for batch in (sent[2], sent[0], sent[3], sent[1]):
        accumulator.requeue(batch)
    assert list(queue)[:4] == batches
    assert not queue[4].has_sequence


def test_flushing_and_a_full_buffer_end_lingering() -> None:
    accumulator = Accumulator(batch_size=1000, linger_ms=50, buffer_memory=140)
    add(accumulator, b"a")
    queue = accumulator.queues[TP]
    assert accumulator.ready_in_ms(queue[0], queue, 0) == 50
    accumulator.flushing += 1
    assert accumulator.ready_in_ms(queue[0], queue, 0) == 0
    accumulator.flushing -= 1
    assert accumulator.ready_in_ms(queue[0], queue, 0) == 50
    assert add(accumulator, b"x" * 60) is None, "there is no room: whoever waits for it would wait for linger.ms"
    assert accumulator.ready_in_ms(queue[0], queue, 0) == 0
    accumulator.release(queue.popleft())
    add(accumulator, b"b")
    assert accumulator.ready_in_ms(queue[0], queue, 0) == 50


def test_a_record_larger_than_the_whole_buffer_passes_alone() -> None:
    accumulator = Accumulator(batch_size=100, linger_ms=0, buffer_memory=200)
    assert add(accumulator, b"x" * 5000) is not None
    assert add(accumulator, b"x") is None


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=60), st.integers(62, 2000))
def test_estimates_never_fall_short_of_the_encoded_size(records: list[tuple[bytes, bytes]], batch_size: int) -> None:
    accumulator = Accumulator(batch_size, 0, 1 << 30)
    for key, value in records:
        accumulator.append(TP, 1_700_000_000_000, key, value, (("h", key),), 0)
    order: list[bytes | None] = []
    for batch in accumulator.queues.get(TP, ()):
        encoded = encode_batch(batch.records)
        assert len(encoded) <= batch.size
        assert batch.size <= batch_size or batch.record_count == 1
        order += [value for _, _, value, _ in batch.records]
    assert order == [value for _, value in records]
    assert accumulator.used == sum(batch.reserved for batch in accumulator.queues.get(TP, ()))


@given(st.binary(max_size=50), st.text(max_size=20))
@settings(max_examples=30, derandomize=True)
def test_a_record_with_any_header_name_fits_its_estimate(content: bytes, name: str) -> None:
    record = (0, content, content, ((name, content),))
    assert len(encode_batch([record])) <= 61 + record_size(content, content, ((name, content),))


def test_sequences_wrap() -> None:
    assert sequence_before(1, 2)
    assert not sequence_before(2, 1)
    assert not sequence_before(5, 5)
    assert sequence_before(0x7FFFFFFF, 0)
    assert not sequence_before(0, 0x7FFFFFFF)


def test_many_partitions_have_an_open_batch_in_little_memory() -> None:
    accumulator = Accumulator(batch_size=262_144, linger_ms=5, buffer_memory=32 * 1024 * 1024)
    taken = [accumulator.append(TopicPartition("t", number), 0, None, b"x" * 100, (), 0) for number in range(450)]
    assert all(each is not None for each in taken)
    rooms = [each[0].reserved for each in taken if each is not None]
    assert rooms[0] == 262_144
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[-1] >= 16_384
    assert accumulator.used <= 32 * 1024 * 1024
