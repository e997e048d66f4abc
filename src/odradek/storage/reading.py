"""Lookup of positions to read, by index and a few kilobytes of headers, and of offsets by timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.records.batch import decode_batch, read_header
from odradek.storage.batch_walk import BatchPosition
from odradek.storage.segment import Segment
from odradek.storage.slices import FileSlice

if TYPE_CHECKING:
    from odradek.storage.log import Log


class OffsetPosition(NamedTuple):
    """Position of an offset: the base offset of its segment and the position in it (Kafka's LogOffsetMetadata)."""

    offset: int
    segment_base_offset: int
    position: int


class LogRead(NamedTuple):
    """Result of a read; the slices pin their segments until released."""

    slices: list[FileSlice]
    size: int
    first_offset: int
    """Base offset of the first batch; the fetch offset when no batch was found."""
    start: OffsetPosition
    """Position of the fetch offset, for the arithmetic of lag and min.bytes."""
    first_entry_incomplete: bool
    """True if the first batch did not fit into max_bytes, so that a fetch of version 3 or later answers without records."""

    def release(self) -> None:
        for piece in self.slices:
            piece.release()


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def read_log(log: Log, start_offset: int, max_bytes: int, max_offset: int, min_one_message: bool) -> LogRead:
    """Read as `Log.read`; `start_offset` lies within the log and `max_offset` is at most its end."""
    segments = log.segments
    active = segments.active
    if start_offset == log.log_end_offset:
        return _nothing(start_offset, active)
    for index in range(segments.index_at(start_offset), len(segments.bases)):
        segment = segments[index]
        position = segments.known_position(start_offset) if segment is active else None
        if position is not None:
            end = _end_position(log, segment, index, max_offset)
            if position < end <= position + max_bytes:
                # The slice holds all batches up to the end, as whole batches: the header of the first one need not be read.
                start = OffsetPosition(start_offset, segment.base_offset, position)
                return LogRead([FileSlice(segment.file, position, end - position, segment.pin)], end - position, start_offset, start, False)
        first = segment.batch_at(position) if position is not None and max_offset > start_offset else None
        if first is None:
            first = segment.find(start_offset, position)
        if first is None:
            # Compaction left no batch at or above the offset in this segment.
            continue
        end = _end_position(log, segment, index, max_offset)
        start = OffsetPosition(start_offset, segment.base_offset, first.position)
        if end <= first.position:
            return LogRead([], 0, start_offset, start, False)
        limit = max(max_bytes, first.size) if min_one_message else max_bytes
        incomplete = limit < first.size
        size = min(end - first.position, limit)
        if size <= 0:
            return LogRead([], 0, start_offset, start, incomplete)
        return LogRead([FileSlice(segment.file, first.position, size, segment.pin)], size, first.base_offset, start, incomplete)
    return _nothing(start_offset, active)


def _nothing(offset: int, active: Segment) -> LogRead:
    return LogRead([], 0, offset, OffsetPosition(offset, active.base_offset, active.size), False)


def _end_position(log: Log, segment: Segment, index: int, max_offset: int) -> int:
    """Return the position in the segment of the first batch that reaches `max_offset`; the segment's size without such a batch."""
    segments = log.segments
    if max_offset >= segments.end_of(index, log.log_end_offset):
        return segment.size
    if max_offset <= segment.base_offset:
        return 0
    if segment is segments.active:
        known = segments.known_position(max_offset)
        if known is not None:
            return known
    batch = segment.find(max_offset)
    return segment.size if batch is None else batch.position


def find_offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """Find an offset as `Log.offset_for_timestamp`."""
    for segment in log.segments:
        segment.ensure_max_timestamp()
        if segment.max_timestamp < timestamp:
            continue
        position = segment.position_before(max(segment.offset_before(timestamp), log.log_start_offset))
        for batch in segment.scan(position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= log.log_start_offset:
                found = _first_record(segment, batch, timestamp, log.log_start_offset)
                if found is not None:
                    return found
    return None


def find_offset_for_max_timestamp(log: Log) -> TimestampedOffset | None:
    """Find an offset as `Log.offset_for_max_timestamp`."""
    best: Segment | None = None
    for segment in log.segments:
        segment.ensure_max_timestamp()
        if segment.size and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    position = best.position_before(best.max_timestamp_offset)
    for batch in best.scan(position):
        if batch.max_timestamp == best.max_timestamp:
            return _first_record(best, batch, batch.max_timestamp, 0)
    return None


def _first_record(segment: Segment, batch: BatchPosition, timestamp: int, min_offset: int) -> TimestampedOffset | None:
    data = segment.file.pread(batch.size, batch.position)
    header = read_header(data, 0)
    for record in decode_batch(data, 0, header):
        if record.timestamp >= timestamp and record.offset >= min_offset:
            return TimestampedOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None
