"""A log written down naively: batches as they were appended, and what follows from them by the rules alone.

It knows nothing of segments, indexes, snapshots or checkpoints. What it is told to adopt after a cleaning or a restart it judges first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from odradek.records.batch import Record, decode_batch, iter_headers, read_header
from odradek.storage.append import read_marker
from odradek.storage.log import Log
from odradek.storage.txn_index import AbortedTransaction
from tests.storage.support import read_bytes


class Written(NamedTuple):
    """A batch in the log."""

    base: int
    last: int
    leader_epoch: int
    codec: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    aborts: bool | None
    """What a marker says; None for data, and for a marker that compaction has emptied."""
    coordinator_epoch: int
    horizon: int | None
    max_timestamp: int
    records: tuple[Record, ...]

    @property
    def last_sequence(self) -> int:
        return self.sequence + self.last - self.base

    @property
    def identity(self) -> tuple[object, ...]:
        """What compaction leaves as it is."""
        return (*self[:3], *self[4:9])


class Producer(NamedTuple):
    """What is known of a producer: its last data batch of the current epoch (-1: none), and where its transaction began (-1: none)."""

    epoch: int = -1
    coordinator_epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    first_offset: int = -1


Producers = dict[int, Producer]


def follow(producers: Producers, batch: Written) -> AbortedTransaction | None:
    """The state after a batch; the entry of the transaction index when it ends one by aborting it."""
    if batch.producer_id < 0 or (batch.control and batch.aborts is None):
        return None
    known = producers.get(batch.producer_id, Producer())
    if not batch.control:
        first = batch.base if batch.transactional and known.first_offset < 0 else known.first_offset
        producers[batch.producer_id] = Producer(batch.producer_epoch, known.coordinator_epoch, batch.last_sequence, batch.last, first)
        return None
    same = batch.producer_epoch == known.epoch
    producers[batch.producer_id] = Producer(
        batch.producer_epoch, batch.coordinator_epoch, known.last_sequence if same else -1, known.last_offset if same else -1
    )
    if known.first_offset < 0 or not batch.aborts:
        return None
    stable = min([each.first_offset for each in producers.values() if each.first_offset >= 0], default=batch.base + 1)
    return AbortedTransaction(batch.producer_id, known.first_offset, batch.base, stable)


def replay(batches: Iterable[Written], begin: Producers | None = None) -> Producers:
    producers = dict(begin or {})
    for batch in batches:
        follow(producers, batch)
    return producers


def statuses(history: Iterable[Written]) -> dict[int, bool | None]:
    """Base offset of each transactional data batch -> whether it was aborted, None as long as that is open."""
    status: dict[int, bool | None] = {}
    ongoing: dict[int, list[int]] = {}
    for batch in history:
        if batch.control:
            for base in ongoing.pop(batch.producer_id, ()):
                status[base] = batch.aborts
        elif batch.transactional:
            ongoing.setdefault(batch.producer_id, []).append(batch.base)
            status[batch.base] = None
    return status


def batches_in(data: bytes) -> list[Written]:
    """Return the whole batches of some bytes of a log."""
    return [_written(data[position : position + header.size]) for position, header in iter_headers(data)]


@lru_cache(maxsize=4096)
def _written(data: bytes) -> Written:
    """Decode one batch. Models read the same batches after each of their steps."""
    header = read_header(data)
    marker = read_marker(memoryview(data), 0, header) if header.is_control else None
    return Written(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.compression,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
        marker.aborted if marker else None,
        marker.coordinator_epoch if marker else -1,
        header.delete_horizon_ms,
        header.max_timestamp,
        tuple(decode_batch(data, 0, header)),
    )


def batches_from(log: Log, start: int, *, max_bytes: int = 1 << 20, max_offset: int | None = None) -> list[Written]:
    """What a consumer is served from an offset on, request by request."""
    found: list[Written] = []
    end = log.log_end_offset if max_offset is None else max_offset
    while start < end:
        batches = batches_in(read_bytes(log, start, max_bytes, end))
        if not batches:
            break
        assert batches[0].last >= start, "a read begins with the batch that holds the offset, or the next one"
        found += batches
        start = batches[-1].last + 1
    return found


def committed_from(log: Log, start: int) -> list[Record]:
    """What a consumer with isolation.level=read_committed makes of it: aborted transactions by the list it is sent."""
    stable = log.last_stable_offset
    pending = sorted(log.aborted_transactions(start, stable), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    found: list[Record] = []
    for batch in batches_from(log, start, max_offset=stable):
        while pending and pending[0].first_offset <= batch.last:
            aborted.add(pending.pop(0).producer_id)
        if batch.control:
            if batch.aborts:
                aborted.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in aborted):
            found += [record for record in batch.records if record.offset >= start]
    return found


class Expected(NamedTuple):
    """What a cleaning must leave of the part below `end`."""

    first_dirty: int
    end: int
    records: list[Record]


def compacted(batches: Sequence[Written], status: dict[int, bool | None], first_dirty: int, end: int, now_ms: int) -> Expected:
    """Of each key the last committed record of the dirty part and what is behind it, tombstones until their time has come."""
    data = [batch for batch in batches if not batch.control and batch.last < end and not status.get(batch.base)]
    last = {record.key: record.offset for batch in data for record in batch.records if record.offset >= first_dirty}
    kept = [
        record
        for batch in data
        for record in batch.records
        if record.key is not None
        and record.offset >= last.get(record.key, -1)
        and not (record.value is None and batch.horizon is not None and batch.horizon <= now_ms)
    ]
    return Expected(first_dirty, end, kept)
