"""Plan of a cleaning, and the decisions that lead to it (Kafka's LogToClean, LogCleanerManager, Cleaner.groupSegmentsBySize).

Everything here runs on the loop, except `group_sources`.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from odradek.base.disk import File
from odradek.base.ids import TopicPartition
from odradek.storage.batch_walk import MAX_RELATIVE_OFFSET
from odradek.storage.log import Log
from odradek.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_file
from odradek.storage.segment import Segment, SegmentLimits
from odradek.storage.txn_index import AbortedTransaction

logger = logging.getLogger(__name__)

MOST_SEGMENTS_SWAPPED = 16
"""Limit of segments that one cleaned segment may replace, because their files are renamed on the loop.

The next cleaning joins segments that are still small.
"""


class OffsetsToClean(NamedTuple):
    """Range of the dirty part: its first offset, and the first offset that must not be cleaned yet.

    `reset` says that the checkpoint is wrong.
    """

    first_dirty: int
    first_uncleanable: int
    reset: bool


def cleanable_offsets(log: Log, checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    """Return the part of a log that may be cleaned now: below the last stable offset and the active segment, older than
    min.compaction.lag.ms.

    `checkpoint` is the offset up to which the log was cleaned; an offset outside of the log is ignored.
    """
    start = log.log_start_offset
    first_dirty, reset = start if checkpoint is None else checkpoint, False
    if first_dirty < start:
        if not log.config.delete:
            logger.warning("%s is cleaned up to %d, below its log start %d: continuing there", log.name, first_dirty, start)
        first_dirty, reset = start, True
    elif first_dirty > log.log_end_offset:
        logger.warning("%s is cleaned up to %d, beyond its end %d: starting again at %d", log.name, first_dirty, log.log_end_offset, start)
        first_dirty, reset = start, True
    uncleanable = min(log.last_stable_offset, log.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in inactive_from(log, first_dirty):
            if segment.largest_timestamp() > now_ms - lag_ms:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, uncleanable), reset)


def inactive_from(log: Log, offset: int) -> list[Segment]:
    """Return the inactive segments from the one that holds `offset` on."""
    return log.segments[log.segments.index_at(offset) : -1] if offset < log.active.base_offset else []


def segments_between(log: Log, low: int, high: int) -> list[Segment]:
    """Return the segments from the one that holds `low` to the one that holds `high` - 1."""
    return log.segments[log.segments.index_at(low) : bisect_left(log.bases, high)] if low < high else []


def cleanable_bytes(log: Log, offsets: OffsetsToClean) -> tuple[int, int]:
    """Return (base offset of the first segment that may not be cleaned, bytes of the dirty segments before it)."""
    inactive = inactive_from(log, offsets.first_uncleanable)
    end = (inactive[0] if inactive else log.active).base_offset
    return end, sum([segment.size for segment in segments_between(log, min(offsets.first_dirty, end), end)])


def overdue_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    """Return the milliseconds by which the oldest dirty segment exceeds max.compaction.lag.ms; 0 when it does not."""
    limit = now_ms - max(log.config.max_compaction_lag_ms, 0)
    if limit <= 0:
        return 0
    oldest = min([stamp for segment in inactive_from(log, first_dirty) if (stamp := _first_timestamp(segment)) > 0], default=limit)
    return max(limit - oldest, 0)


def _first_timestamp(segment: Segment) -> int:
    """Return the largest timestamp (ms) of a segment's first batch; -1 without a batch."""
    if segment.first_batch_timestamp is None and segment.size:
        segment.first_batch_timestamp = segment.batch_at(0).max_timestamp
    return -1 if segment.first_batch_timestamp is None else segment.first_batch_timestamp


class Source:
    """Segment as the plan saw it. The loop takes it before a step reads it and releases it afterwards."""

    __slots__ = ("base_offset", "end_offset", "file", "index_path", "log_path", "segment", "size", "time_index_path")

    def __init__(self, segment: Segment, end_offset: int) -> None:
        """`end_offset` is where the next segment begins."""
        self.segment = segment
        self.base_offset = segment.base_offset
        self.end_offset = end_offset
        self.size = segment.size
        self.log_path = segment.log_path
        self.index_path = f"{segment.directory}/{segment_file(segment.base_offset, INDEX_SUFFIX)}"
        self.time_index_path = f"{segment.directory}/{segment_file(segment.base_offset, TIME_INDEX_SUFFIX)}"
        self.file: File | None = None

    def take(self) -> None:
        """Pin the segment and open its file. The segment must still be in the log."""
        if self.file is None:
            self.segment.pin.take()
            self.file = self.segment.file

    def release(self) -> None:
        if self.file is not None:
            self.file = None
            self.segment.pin.drop()


class LastRecord(NamedTuple):
    """Active producer: the offset of its last data batch, -1 without one, and its epoch."""

    last_data_offset: int
    epoch: int


class CleaningPlan:
    """State of a log that a cleaning reads, recorded at one moment on the loop.

    The loop may set `stopped` at any time, and the executor reads it: the result is then discarded.
    """

    __slots__ = (
        "aborted_transactions",
        "clean_bytes",
        "cleanable_bytes",
        "delete_retention_ms",
        "directory",
        "first_dirty",
        "first_uncleanable",
        "generation",
        "limits",
        "log",
        "overdue",
        "producers",
        "segment_bytes",
        "sources",
        "start_position",
        "stopped",
        "tail",
        "topic_partition",
    )

    def __init__(self, log: Log, offsets: OffsetsToClean, *, overdue: bool) -> None:
        """Collect cheap figures only. `prepare` does the slow reads, for the chosen plan."""
        self.log = log
        self.topic_partition: TopicPartition = log.topic_partition
        self.first_dirty = offsets.first_dirty
        self.first_uncleanable, self.cleanable_bytes = cleanable_bytes(log, offsets)
        self.clean_bytes = sum([segment.size for segment in log.segments[: bisect_left(log.bases, offsets.first_dirty)]])
        self.overdue = overdue
        self.generation = log.generation
        self.directory = log.directory
        self.delete_retention_ms = log.config.delete_retention_ms
        self.segment_bytes = log.config.segment_bytes
        self.limits = SegmentLimits(log.config.index_interval_bytes, log.config.segment_index_bytes)
        self.sources: list[Source] = []
        self.tail: list[Source] = []
        """Segments after the cleaned ones, when the last data batch of a producer lies in them."""
        self.start_position = 0
        self.aborted_transactions: list[AbortedTransaction] = []
        self.producers: dict[int, LastRecord] = {}
        self.stopped = False

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes

    def prepare(self) -> None:
        """Record segments, aborted transactions and producers."""
        log = self.log
        bases = [*log.bases[1:], log.log_end_offset]
        count = bisect_left(log.bases, self.first_uncleanable)
        self.sources = [Source(segment, end) for segment, end in zip(log.segments[:count], bases, strict=False)]
        dirty = self.dirty_sources()
        if dirty:
            self.start_position = dirty[0].segment.offset_index.lookup(self.first_dirty)[1]
        self.aborted_transactions = [each for segment in log.segments for each in segment.txn_index.entries()]
        known = log.producer_state.producers
        self.producers = {
            producer_id: LastRecord(entry.last_data_offset, entry.epoch)
            for producer_id, entry in known.items()
            if entry.last_data_offset < self.first_uncleanable
        }
        if len(self.producers) < len(known):
            tail = zip(log.segments[count:], bases[count:], strict=False)
            self.tail = [Source(segment, end) for segment, end in tail]

    def dirty_sources(self) -> list[Source]:
        """Return the segments from which the map of offsets is built."""
        if self.first_dirty >= self.first_uncleanable:
            return []
        first = max(bisect_left([source.base_offset for source in self.sources], self.first_dirty + 1) - 1, 0)
        return self.sources[first:]

    def is_valid(self) -> bool:
        """Return whether the log is unchanged since the plan was made."""
        return not self.stopped and self.generation == self.log.generation and self.directory == self.log.directory

    def holds(self, source: Source) -> bool:
        """Return whether the segment is still in the log."""
        log = self.log
        index = bisect_left(log.bases, source.base_offset)
        return index < len(log.segments) and log.segments[index] is source.segment

    def aborted_between(self, low: int, high: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [low, high); may run in the executor."""
        found: list[AbortedTransaction] = []
        first = bisect_left(self.aborted_transactions, low, key=lambda each: each.last_offset)
        for each in self.aborted_transactions[first:]:
            if each.first_offset < high:
                found.append(each)
            if each.last_stable_offset >= high:
                break
        return found


def group_sources(
    sources: Sequence[Source], index_sizes: Sequence[tuple[int, int]], segment_bytes: int, index_bytes: int, first_uncleanable: int
) -> list[list[Source]]:
    """Group neighbouring segments that fit into one segment, by the bytes of their logs and indexes and by their offset range.

    `index_sizes` are the bytes of offset and time index of each source.
    """
    groups: list[list[Source]] = []
    group: list[Source] = []
    size = offsets_size = times_size = 0
    for number, source in enumerate(sources):
        own_offsets, own_times = index_sizes[number]
        last_offset = (sources[number + 1].base_offset if number + 1 < len(sources) else first_uncleanable) - 1
        if (
            group
            and len(group) < MOST_SEGMENTS_SWAPPED
            and size + source.size <= segment_bytes
            and offsets_size + own_offsets <= index_bytes
            and times_size + own_times <= index_bytes
            # An empty segment uses no offsets: if its range counted, one segment would be left over every 2**31 offsets.
            and (source.size == 0 or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            group.append(source)
            size += source.size
            offsets_size += own_offsets
            times_size += own_times
        else:
            group = [source]
            groups.append(group)
            size, offsets_size, times_size = source.size, own_offsets, own_times
    return groups
