"""Walk over the batches of a segment by small reads of their headers, and what it shows about the segment's indexes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import HEADER_SIZE

if TYPE_CHECKING:
    from odradek.storage.segment import Segment

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
SCAN_BYTES = 4096
_SCAN_HEADER = struct.Struct(">qiibIhiqq")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp: 43 of the 61 header bytes."""
_LOG_OVERHEAD = 12
_SMALLEST_MESSAGE = 26
"""Size of the smallest message, which has magic 0.

A message of magic 0 or 1, compressed or not, is treated as a batch of one record with its last offset.
"""
_MESSAGE_HEADER = struct.Struct(">bq")
"""Attributes and, in magic 1, the timestamp."""
_MESSAGE_ATTRIBUTES = 17
_MESSAGE_ATTRIBUTES_USED = 0x0F


class BatchPosition(NamedTuple):
    """Batch as found by a scan of headers; `size` is the whole batch in bytes."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int


def walk(segment: Segment, position: int, end: int, read_ahead: int) -> Iterator[BatchPosition]:
    """Yield batch headers by small reads, until `end`. Raises KafkaError CORRUPT_MESSAGE for an invalid batch header."""
    file = segment.file
    window = b""
    window_start = position
    unpack = _SCAN_HEADER.unpack_from
    while position + _SMALLEST_MESSAGE <= end:
        at = position - window_start
        if at + _SCAN_HEADER.size > len(window):
            window = file.pread(max(read_ahead, HEADER_SIZE), position)
            window_start, at = position, 0
            if len(window) < _SCAN_HEADER.size:
                # The last message, of magic 0 or 1, may be shorter; the file may also have been truncated since.
                if len(window) < _SMALLEST_MESSAGE:
                    return
                window = window.ljust(_SCAN_HEADER.size, b"\0")
        base_offset, length, epoch, magic, _, attributes, delta, base_timestamp, max_timestamp = unpack(window, at)
        size = length + _LOG_OVERHEAD
        if magic != 2 or size < HEADER_SIZE or delta < 0:
            if not 0 <= magic < 2 or size < _SMALLEST_MESSAGE:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{segment.log_path}: no batch header at position {position} (magic {magic}, length {length})",
                )
            attributes, base_timestamp = _MESSAGE_HEADER.unpack_from(window, at + _MESSAGE_ATTRIBUTES)
            attributes &= _MESSAGE_ATTRIBUTES_USED
            epoch, delta, max_timestamp = -1, 0, base_timestamp if magic else -1
        if position + size > end:
            return
        yield BatchPosition(position, size, base_offset, base_offset + delta, epoch, attributes, base_timestamp, max_timestamp)
        position += size


def begins_batch(segment: Segment, position: int, offset: int) -> bool:
    """Return whether a batch begins at `position` whose base offset is not above `offset`."""
    if not 0 < position <= segment.size - HEADER_SIZE:
        return False
    head = segment.file.pread(_SCAN_HEADER.size, position)
    fields: tuple[int, ...] = _SCAN_HEADER.unpack(head)
    base_offset, length, _, magic, _, _, delta, _, _ = fields
    size = length + _LOG_OVERHEAD
    return (
        magic == 2
        and HEADER_SIZE <= size <= segment.size - position
        and delta >= 0
        and segment.base_offset <= base_offset <= offset <= segment.base_offset + MAX_RELATIVE_OFFSET
    )


def is_largest(segment: Segment, timestamp: int, offset: int) -> bool:
    """Return whether the batch that holds `offset` has `timestamp` as its largest one."""
    if offset < segment.base_offset:
        return False
    batch = segment.find(offset)
    return batch is not None and batch.base_offset <= offset and batch.max_timestamp == timestamp


def read_largest_timestamp(segment: Segment) -> tuple[int, int]:
    """Return the largest timestamp (ms) of a segment and its offset, from the time index and the batches after its last entry."""
    times = segment.time_index
    offset = segment.offset_before(times.last_timestamp)
    if segment.max_timestamp_known:
        # The index had to be rebuilt.
        return segment.max_timestamp, segment.max_timestamp_offset
    largest = times.last_timestamp
    position = segment.position_before(offset) if times.entries else 0
    if segment.size:
        for batch in walk(segment, position, segment.size, 64 * 1024):
            if batch.max_timestamp > largest:
                largest, offset = batch.max_timestamp, batch.last_offset
    return largest, offset
