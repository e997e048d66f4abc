# pyright: reportPrivateUsage=false
"""Work of a producer for each record: hashing the key, and adding the record to a batch. See `_frames` for how this source is run."""

from __future__ import annotations

from typing import Any

from odradek.records import _raw

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_NO_HEADERS: tuple[()] = ()
_NS_PER_MS = 1_000_000

RECORD_OVERHEAD = _OVERHEAD = 21
"""Upper bound of the bytes of a record's framing: length, attributes, deltas and the lengths of key, value and headers."""


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    byte = len("C")
    byte += 255
    return byte == 0


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 (org.apache.kafka.common.utils.Utils.murmur2) as a signed 32-bit number."""
    octets = data
    length = len(data)
    h = (_SEED ^ length) & _MASK
    position = 0
    while length - position >= 4:
        k = octets[position] | octets[position + 1] << 8 | octets[position + 2] << 16 | octets[position + 3] << 24
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        position += 4
    if position < length:
        k = octets[position]
        if length - position > 1:
            k |= octets[position + 1] << 8
        if length - position > 2:
            k |= octets[position + 2] << 16
        h ^= k
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    h ^= h >> 15
    return _raw.wrapped32(h)


class Ticket:
    """Base of a producer's futures: stands for `record_count` records of a batch, from the index `first` on.

    `timestamp` is the first record's, Unix milliseconds. Only derived classes use the fields.
    """

    def __init__(self, batch: Any, first: int, timestamp: int, record_count: int = 1) -> None:
        self._batch = batch
        self._first = first
        self._timestamp = timestamp
        self._record_count = record_count


class Gatherer:
    """Collector of records without headers for one batch, used while the only check needed is whether a record fits.

    Code that closes the gatherer finds all added records in `records`, as (timestamp, key, value, headers); none is added afterwards.
    `room` is the free space in bytes, by an upper estimate of the records' sizes.

    When compiled, any thread may call `take` at any time: no other code can run between its check of `closed` and the append. When
    interpreted, `take` also needs the lock under which the gatherer is closed (`is_atomic`).
    """

    def __init__(self, batch: Any, records: list[Any], room: int, ticket_class: Any, time_ns: Any) -> None:
        """`ticket_class` is Ticket, or a class derived from it without additional state or `__init__`; `time_ns()` returns Unix
        nanoseconds.
        """
        self.batch = batch
        self.records = records
        self.room = room
        self.closed = False
        self._ticket_class = ticket_class
        self._time_ns = time_ns

    @property
    def is_atomic(self) -> bool:
        """Return whether `take` needs no lock."""
        return is_compiled()

    def take(self, key: Any, value: Any, timestamp: Any = None) -> Any:
        """Return the ticket of a record; None when the batch is closed or full, or when key or value is not bytes."""
        size = _OVERHEAD
        if key is not None:
            if type(key) is not bytes:
                return None
            size += len(key)
        if value is not None:
            if type(value) is not bytes:
                return None
            size += len(value)
        stamp = self._time_ns() // _NS_PER_MS if timestamp is None else timestamp
        record = (stamp, key, value, _NO_HEADERS)
        ticket = _raw.bare(self._ticket_class)
        # All allocations, which may run the garbage collector, are done.
        records = self.records
        if self.closed or size > self.room:
            return None
        _fill(ticket, self.batch, len(records), stamp)
        records.append(record)
        self.room -= size
        return ticket


def _fill(ticket: Ticket, batch: Any, first: int, timestamp: Any) -> None:
    ticket._batch = batch
    ticket._first = first
    ticket._timestamp = timestamp
    ticket._record_count = 1
