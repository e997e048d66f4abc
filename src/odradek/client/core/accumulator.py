"""Records that wait to be sent, gathered into batches per partition (RecordAccumulator, without its threads).

- A batch takes records until `batch.size` bytes; a record larger than `batch.size` gets a batch for itself.
- `buffer.memory` bounds the bytes of waiting batches and of batches on the wire. Beyond the bound `append` returns None, and the shell
  makes the caller wait.
- An open batch reserves its whole size, as in Kafka's pool, and gives back the unused bytes when the batch is closed.
- The gatherer of an open batch may take records without headers directly, without a call of the accumulator.
- Sizes are upper estimates of the uncompressed records. Times are monotonic milliseconds, except record timestamps (Unix time).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, Protocol

from odradek.base.ids import TopicPartition
from odradek.records.batch import HEADER_SIZE
from odradek.records.codec import RECORD_OVERHEAD, Gatherer, Ticket

logger = logging.getLogger(__name__)

Header = tuple[str, bytes | None]
RecordTuple = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""(timestamp in Unix milliseconds, key, value, headers), as `records.batch.encode_batch` takes them."""


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return an upper estimate of a record's bytes in a batch."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + 3 * len(name) + (len(content) if content else 0)
    return size


def sequence_before(one: int, other: int) -> bool:
    """Return whether the sequence number `one` comes before `other`; sequences wrap from 2**31 - 1 to 0."""
    return one != other and (other - one) & 0x7FFFFFFF < 1 << 30


class Owner(Protocol):
    """Client that a batch belongs to."""

    def check_process(self) -> None:
        """Raise OdradekError in a forked child, where the client cannot finish the batch."""
        ...

    def check_wait(self) -> None:
        """Raise OdradekError where waiting for the batch would not end: in a forked child and in the client's event loop."""
        ...


class Settled(NamedTuple):
    """Range of records in one batch: `record_count` records from index `first` on, whose outcome `batch` holds."""

    batch: Batch
    first: int
    record_count: int


class Batch:
    """Records of one partition that are sent and retried together; they are acknowledged together unless the batch was split."""

    __slots__ = (
        "_callbacks",
        "_finished",
        "_record_count",
        "_size",
        "acked_before",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "error",
        "gatherer",
        "log_append_time_ms",
        "ordinal",
        "owner",
        "payload",
        "payload_has_sequence",
        "pieces",
        "producer_epoch",
        "producer_id",
        "record_errors",
        "records",
        "refused",
        "reserved",
        "retry_at_ms",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: int, owner: Owner | None = None) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.owner = owner
        self.records: list[RecordTuple] = []
        self.gatherer: Gatherer | None = None
        """Gatherer that takes records while the batch is open; None when it is closed."""
        self.reserved = HEADER_SIZE
        """Bytes of buffer.memory that the batch holds."""
        self._record_count = 0
        self._size = HEADER_SIZE
        self.payload: bytes | memoryview | None = None
        self.payload_has_sequence = False
        self.attempts = 0
        self.retry_at_ms = 0
        self.refused = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.acked_before = -1
        """Last sequence of the partition that was acknowledged when the batch was sent; -1 for none."""
        self.ordinal = -1
        """Number of the batch among the partition's batches that have got a sequence."""
        self.error: BaseException | None = None
        self.record_errors: dict[int, str | None] | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.pieces: tuple[Batch, ...] = ()
        """Batches that took over the records, in order, when the broker found this batch too large."""
        self._finished = False
        self._callbacks: deque[tuple[Callable[[], object], int, int | None]] = deque()

    @property
    def record_count(self) -> int:
        return self._record_count if self.gatherer is None else len(self.records)

    @property
    def size(self) -> int:
        """Return an upper estimate of the batch's bytes."""
        return self._size if self.gatherer is None else self.reserved - self.gatherer.room

    def hold(self, record_count: int, size: int) -> None:
        """Set the number of records and their bytes for a closed batch, and reserve exactly `size` bytes."""
        self._record_count, self._size = record_count, size
        self.reserved = size

    def close(self) -> int:
        """Stop taking records. Return how many reserved bytes were not used and are given back."""
        gatherer = self.gatherer
        if gatherer is None:
            return 0
        gatherer.closed = True
        before = self.reserved
        self.gatherer = None
        self.hold(len(self.records), before - gatherer.room)
        return before - self.reserved

    @property
    def has_sequence(self) -> bool:
        """Return whether the batch has a sequence of an idempotent producer."""
        return self.base_sequence >= 0

    def is_done(self, first: int = 0, record_count: int | None = None) -> bool:
        """Return whether the outcome of these records (by default of all records) is known."""
        if not self.pieces:
            return self._finished
        return all(batch.is_done() for batch, _, _ in self.outcomes(first, record_count))

    def outcomes(self, first: int = 0, record_count: int | None = None) -> Iterator[Settled]:
        """Yield the batches, with ranges of records, that hold the outcome of these records (by default of all records), in order."""
        end = self.record_count if record_count is None else first + record_count
        if not self.pieces:
            yield Settled(self, first, end - first)
        start = 0
        for piece in self.pieces:
            begin, stop = max(first - start, 0), min(end - start, piece.record_count)
            if begin < stop:
                yield from piece.outcomes(begin, stop - begin)
            start += piece.record_count

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Record that the broker has written the batch, and run the callbacks."""
        self._finish(base_offset, log_append_time_ms, None)

    def fail(self, error: BaseException, record_errors: dict[int, str | None] | None = None) -> None:
        """Record that the broker has refused the batch, or that its outcome stays unknown after a timeout; run the callbacks."""
        self.record_errors = record_errors
        self._finish(-1, -1, error)

    def _finish(self, base_offset: int, log_append_time_ms: int, error: BaseException | None) -> None:
        if self._finished:
            return
        self.base_offset, self.log_append_time_ms, self.error = base_offset, log_append_time_ms, error
        self._finished = True
        self.payload = None
        self.records.clear()
        self._run_callbacks()

    def replace_by(self, pieces: Sequence[Batch]) -> None:
        """Let `pieces` hold the records and their outcome from now on; this batch is not sent again."""
        self.pieces = tuple(pieces)
        self.payload = None
        self._run_callbacks()

    def add_callback(self, callback: Callable[[], object], first: int = 0, record_count: int | None = None) -> None:
        """Run `callback()` once when the outcome of these records (by default of all records) is known; at once if it is known already.

        May be called from another thread.
        """
        self._callbacks.append((callback, first, record_count))
        if self._finished or self.pieces:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        # Two threads may get here at once (a completion and a late `add_callback`): popping hands each callback to one of them.
        while self._callbacks:
            try:
                callback, first, record_count = self._callbacks.popleft()
            except IndexError:
                return
            if self.pieces:
                _after_all(list(self.outcomes(first, record_count)), callback)
                continue
            try:
                callback()
            except BaseException:
                # The user's callback may also raise CancelledError or SystemExit; neither may stop the sender or the other records.
                logger.exception("%s: a callback failed", self.topic_partition)


def _after_all(parts: Sequence[Settled], callback: Callable[[], object]) -> None:
    """Run the callback once, after the last of the parts."""
    arrived = count(1)

    def arrive() -> None:
        # Drawing a number is atomic: of two threads one draws the last.
        if next(arrived) == len(parts):
            callback()

    for batch, first, record_count in parts:
        batch.add_callback(arrive, first, record_count)


_SHARE = 128
_LEAST_ROOM = 16 * 1024
"""Least bytes, within batch.size, that a new batch reserves; else 1/`_SHARE` of the free memory, for many partitions to fit."""


class Accumulator:
    """Batches of all partitions and the memory they take."""

    __slots__ = ("_batch_size", "_exhausted", "_limit", "_linger_ms", "_owner", "_ticket_class", "_time_ns", "flushing", "queues", "used")

    def __init__(
        self,
        batch_size: int,
        linger_ms: int,
        buffer_memory: int,
        ticket_class: type[Ticket] = Ticket,
        time_ns: Callable[[], int] = lambda: 0,
        owner: Owner | None = None,
    ) -> None:
        """`ticket_class` and `time_ns` (Unix nanoseconds) are for records that the gatherer of an open batch takes.

        `owner` is the client that the batches belong to.
        """
        self._owner = owner
        self._ticket_class = ticket_class
        self._time_ns = time_ns
        self._batch_size = max(1, batch_size)
        self._linger_ms = linger_ms
        self._limit = buffer_memory
        self.queues: dict[TopicPartition, deque[Batch]] = {}
        self.used = 0
        self.flushing = 0
        """Number of flushes under way; no batch lingers during a flush."""
        self._exhausted = False  # a record did not fit since memory was last given back: waiting batches must not linger

    def append(
        self,
        topic_partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now_ms: int,
    ) -> tuple[Batch, int] | None:
        """Return the batch that took the record and the record's index in the batch; None when `buffer.memory` is full."""
        size = record_size(key, value, headers)
        batch = self._open_batch(topic_partition, size, now_ms)
        if batch is None:
            return None
        return batch, self._add(batch, [(timestamp_ms, key, value, headers)], size)

    def _add(self, batch: Batch, records: Sequence[RecordTuple], size: int) -> int:
        assert batch.gatherer is not None
        first = len(batch.records)
        batch.records.extend(records)
        batch.gatherer.room -= size
        return first

    def is_filling(self, topic_partition: TopicPartition, size: int) -> bool:
        """Return whether the partition's last batch would take a record of `size` bytes."""
        queue = self.queues.get(topic_partition)
        gatherer = queue[-1].gatherer if queue else None
        return gatherer is not None and size <= gatherer.room

    def close(self, batch: Batch) -> None:
        """Close the batch to further records, and give back the bytes that it did not use."""
        self.used -= batch.close()

    def append_many(
        self, topic_partition: TopicPartition, records: Sequence[RecordTuple], size: int, now_ms: int
    ) -> tuple[Batch, int] | None:
        """Append several records together, as `append` does for one record.

        `size` is their estimated total in bytes. Records that do not fit into the open batch become a new batch together.
        """
        batch = self._open_batch(topic_partition, size, now_ms)
        if batch is None:
            return None
        return batch, self._add(batch, records, size)

    def append_encoded(self, topic_partition: TopicPartition, payload: bytes | memoryview, record_count: int, now_ms: int) -> Batch | None:
        """Queue a whole record batch that is encoded already, and return it; None when `buffer.memory` is full."""
        if self.used and self.used + len(payload) > self._limit:
            self._exhausted = True
            return None
        batch = Batch(topic_partition, now_ms, self._owner)
        batch.payload = payload
        batch.hold(record_count, len(payload))
        self.used += batch.reserved
        self._enqueue(batch)
        return batch

    def _enqueue(self, batch: Batch) -> None:
        queue = self.queues.get(batch.topic_partition)
        if queue is None:
            queue = self.queues[batch.topic_partition] = deque()
        elif queue:
            # Later records must not get into an earlier batch.
            self.close(queue[-1])
        queue.append(batch)

    def _open_batch(self, topic_partition: TopicPartition, size: int, now_ms: int) -> Batch | None:
        queue = self.queues.get(topic_partition)
        if queue:
            last = queue[-1]
            if last.gatherer is not None:
                if size <= last.gatherer.room:
                    return last
                self.close(last)
        # A record larger than the whole buffer would never fit: it is let through when the buffer is empty.
        left = self._limit - self.used
        if self.used and size + HEADER_SIZE > left:
            self._exhausted = True
            return None
        batch = Batch(topic_partition, now_ms, self._owner)
        room = min(self._batch_size, max(_LEAST_ROOM, left // _SHARE), left)
        batch.reserved = max(HEADER_SIZE + size, room)
        batch.gatherer = Gatherer(batch, batch.records, batch.reserved - HEADER_SIZE, self._ticket_class, self._time_ns)
        self.used += batch.reserved
        self._enqueue(batch)
        return batch

    def ready_in_ms(self, batch: Batch, queue: deque[Batch], now_ms: int) -> int:
        """Return the milliseconds until the head `batch` of `queue` may be sent; 0 when it may be sent now."""
        if batch.attempts:
            return max(0, batch.retry_at_ms - now_ms)
        full = len(queue) > 1 or batch.gatherer is None or batch.gatherer.room < RECORD_OVERHEAD
        if full or self.flushing or self._exhausted:
            return 0
        return max(0, batch.created_ms + self._linger_ms - now_ms)

    def requeue(self, batch: Batch) -> None:
        """Put a batch back for another attempt: in the order of sequences if it has one, else at the front."""
        queue = self.queues.setdefault(batch.topic_partition, deque())
        if not batch.has_sequence:
            queue.appendleft(batch)
            return
        position = 0
        while (
            position < len(queue) and queue[position].has_sequence and sequence_before(queue[position].base_sequence, batch.base_sequence)
        ):
            position += 1
        queue.insert(position, batch)

    def release(self, batch: Batch) -> None:
        """Give back the memory of a batch that is done or replaced."""
        self._exhausted = False
        self.used -= batch.reserved
        batch.reserved = 0

    def expired(self, now_ms: int, delivery_timeout_ms: int) -> list[Batch]:
        """Remove and return the waiting batches that are at least `delivery_timeout_ms` old, oldest first per partition."""
        taken: list[Batch] = []
        for queue in self.queues.values():
            while queue and queue[0].created_ms + delivery_timeout_ms <= now_ms:
                self.close(queue[0])
                taken.append(queue.popleft())
        return taken

    def drain_all(self) -> list[Batch]:
        """Remove and return every waiting batch."""
        taken = [batch for queue in self.queues.values() for batch in queue]
        for batch in taken:
            self.close(batch)
        self.queues.clear()
        return taken

    @property
    def waiting(self) -> int:
        """Number of batches that are not on the wire."""
        return sum(len(queue) for queue in self.queues.values())
