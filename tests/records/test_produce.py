"""What a producer does once per record: the hash of a key, and records that are taken into the batch that is open."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records import native


class _Batch:
    pass


def _gatherer(room: int, ticket_class: Any = None) -> Any:
    return native.codec.Gatherer(_Batch(), [], room, ticket_class or native.codec.Ticket, time.time_ns)


def _murmur2(data: bytes) -> int:
    """By the words of the definition, with Python's own integers."""
    h = 0x9747B28C ^ len(data)
    end = len(data) - len(data) % 4
    for position in range(0, end, 4):
        k = int.from_bytes(data[position : position + 4], "little") * 0x5BD1E995 % 2**32
        h = h * 0x5BD1E995 % 2**32 ^ (k ^ k >> 24) * 0x5BD1E995 % 2**32
    if data[end:]:
        h = (h ^ int.from_bytes(data[end:], "little")) * 0x5BD1E995 % 2**32
    h = (h ^ h >> 13) * 0x5BD1E995 % 2**32
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.binary(max_size=40))
def test_keys_are_hashed_as_defined(key: bytes) -> None:
    assert native.codec.murmur2(key) == _murmur2(key)


@pytest.mark.parametrize(("key", "known"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)])
def test_keys_are_hashed_as_java_does(key: bytes, known: int) -> None:
    assert native.codec.murmur2(key) == known


def _parts(ticket: Any) -> tuple[object, int, int, int]:
    """Return batch, place, timestamp and number of records of a ticket."""
    return ticket._batch, ticket._first, ticket._timestamp, ticket._record_count


def test_records_are_taken_in_order_with_their_tickets() -> None:
    gatherer = _gatherer(1000)
    tickets = [gatherer.take(b"k", b"v", 5), gatherer.take(None, None, 6), gatherer.take(b"", b"w", 7)]
    assert gatherer.records == [(5, b"k", b"v", ()), (6, None, None, ()), (7, b"", b"w", ())]
    assert [_parts(each) for each in tickets] == [(gatherer.batch, 0, 5, 1), (gatherer.batch, 1, 6, 1), (gatherer.batch, 2, 7, 1)]


def test_the_clock_gives_the_time_where_none_is_given() -> None:
    gatherer = _gatherer(1000)
    before = time.time_ns() // 1_000_000
    assert before <= _parts(gatherer.take(None, b"v"))[2] <= time.time_ns() // 1_000_000
    slow = native.codec.Gatherer(_Batch(), [], 1000, native.codec.Ticket, lambda: 7_999_999)
    assert _parts(slow.take(None, b"v"))[2] == 7
    assert slow.records[0][0] == 7


def test_the_room_is_kept_to_the_byte() -> None:
    size = native.codec.RECORD_OVERHEAD + 3
    gatherer = _gatherer(2 * size)
    assert gatherer.take(b"k", b"vv", 1) is not None
    assert gatherer.take(None, b"vvv", 1) is not None
    assert gatherer.room == 0
    assert gatherer.take(None, None, 1) is None
    assert len(gatherer.records) == 2


def test_a_closed_one_takes_nothing() -> None:
    gatherer = _gatherer(1000)
    gatherer.closed = True
    assert gatherer.take(None, b"v", 1) is None
    assert gatherer.records == []


@pytest.mark.parametrize("content", ["text", bytearray(b"v"), memoryview(b"v"), 5])
def test_contents_that_are_not_bytes_are_left_to_others(content: object) -> None:
    gatherer = _gatherer(1000)
    assert gatherer.take(None, content, 1) is None
    assert gatherer.take(content, None, 1) is None
    assert gatherer.records == []


def test_tickets_are_of_the_class_that_was_given() -> None:
    class Mine(native.codec.Ticket):  # type: ignore[name-defined,misc]
        __slots__ = ()

    ticket = _gatherer(1000, Mine).take(None, b"v", 1)
    assert type(ticket) is Mine
    made = Mine("batch", 3, 4, 5)
    assert _parts(made) == ("batch", 3, 4, 5)


def test_what_is_forgotten_is_freed() -> None:
    gatherer = _gatherer(1 << 30)
    batch = gatherer.batch
    counts = [sys.getrefcount(batch)]
    for _ in range(1000):
        gatherer.take(None, b"v", 1)
    counts.append(sys.getrefcount(batch))
    kept = [gatherer.take(None, b"v", 1) for _ in range(10)]
    counts.append(sys.getrefcount(batch))
    assert counts == [counts[0], counts[0], counts[0] + len(kept)]


def test_threads_get_different_places(build: str) -> None:
    gatherer = _gatherer(1 << 40)
    assert gatherer.is_atomic == (build == "compiled")
    lock = threading.Lock()
    places: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work() -> None:
        mine = []
        for _ in range(5_000):
            if gatherer.is_atomic:
                mine.append(_parts(gatherer.take(None, b"v", 1))[1])
            else:
                with lock:
                    mine.append(_parts(gatherer.take(None, b"v", 1))[1])
        places.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(places) == list(range(20_000))
