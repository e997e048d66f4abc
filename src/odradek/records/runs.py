"""Compaction of many plain batches in one call, about ten times as fast as `compaction.index_batch` and `filter_batch`.

It is meant for logs of small batches: `__consumer_offsets` and those of slow producers. A plain batch has magic 2, is not compressed, and
is neither transactional nor control. Both functions stop at the first batch that is not plain, that is incomplete, or that only the slow
functions can decide (malformed, a wrong CRC, emptied but to be retained). The caller passes that batch to the slow functions and continues
after it. Any thread, one at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

from odradek.records import native
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    MAGIC_OFFSET,
    MAGIC_V2,
    TRANSACTIONAL_MASK,
)
from odradek.records.compaction import OffsetMap
from odradek.records.compression import DEFAULT_LIMIT

_OTHER_MASK = COMPRESSION_MASK | CONTROL_MASK | TRANSACTIONAL_MASK
_MOST_RECORDS = 1024
"""Batches with more records than this use the slow functions, whose overhead does not matter for them."""
_GROWTH = 4096
"""Bytes by which the batches of a run may grow when tombstones in them get a delete horizon."""
_MARK = 4
_MOST_ENTRIES = 1024
_MAX64 = (1 << 63) - 1


def is_plain(buffer: memoryview, position: int) -> bool:
    """Return whether a plain batch may begin here, so that a call of the functions below makes sense."""
    return (
        len(buffer) - position >= HEADER_SIZE
        and buffer[position + MAGIC_OFFSET] == MAGIC_V2
        and buffer[position + ATTRIBUTES_OFFSET + 1] & _OTHER_MASK == 0
    )


def index_run(offset_map: OffsetMap, buffer: memoryview, start: int, end: int, start_offset: int, *, limit: int = DEFAULT_LIMIT) -> int:
    """Put the keyed records of the plain batches in `buffer[start:end]` from `start_offset` on into the map.

    Returns the position where the function stopped: `end`, or the first batch that needs `index_batch`, also because the map is full. A
    part of that batch may have been put; putting it again changes nothing. `limit` bounds a batch's bytes.

    Raises ValueError for a range outside the buffer.
    """
    return native.codec.index_run(offset_map.table, buffer, start, end, limit, start_offset)


class SegmentBooks(NamedTuple):
    """Figures from which the indexes of the segment being written follow; timestamps in milliseconds."""

    base_offset: int
    index_interval_bytes: int
    bytes_since_index_entry: int
    max_timestamp: int
    max_timestamp_offset: int


class IndexEntry(NamedTuple):
    """Entry for both indexes of the segment."""

    last_offset: int
    position: int
    """Position of the batch, counted from the first byte of the run."""
    max_timestamp: int
    max_timestamp_offset: int


class FilteredRun(NamedTuple):
    """Remaining part of a run of batches."""

    end: int
    """Position in the buffer where the run ended; the batch there needs `filter_batch`, unless it is the range's end."""
    data: list[bytes | memoryview]
    """Bytes that are kept, in order; views are of the buffer."""
    size: int
    """Number of bytes that are kept."""
    records_read: int
    records_kept: int
    first_timestamp: int
    """Maximum timestamp of the first batch that is kept; undefined when `size` is 0."""
    books: SegmentBooks
    """Figures after the run."""
    entries: list[IndexEntry]


class RunFilter:
    """Filter for the runs of one cleaning with one map. Allocates about `buffer_bytes`."""

    __slots__ = ("_filter", "_marks", "_scratch")

    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        buffer_bytes: int,
        held_offsets: Iterable[int],
        now_ms: int,
        delete_retention_ms: int,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """Create a filter whose runs end before they exceed `buffer_bytes`. A batch whose last offset is in `held_offsets` is never dropped
        here.
        """
        self._scratch = memoryview(bytearray(buffer_bytes + _GROWTH))
        self._marks = memoryview(bytearray(_MOST_ENTRIES * _MARK * 8)).cast("q")
        horizon = now_ms + delete_retention_ms
        self._filter = native.codec.RunFilter(
            offset_map.table,
            # A horizon beyond 64 bits cannot be written: with limit 0 every batch needs the slow functions.
            limit if horizon <= _MAX64 else 0,
            now_ms,
            min(horizon, _MAX64),
            memoryview(array("q", sorted(held_offsets))),
            memoryview(bytearray(_MOST_RECORDS)),
            self._scratch,
            self._marks,
        )

    def run(self, buffer: memoryview, start: int, end: int, books: SegmentBooks) -> FilteredRun:
        """Remove the superseded records from the plain batches in `buffer[start:end]`. CRCs are checked.

        The run stops at a batch whose offsets do not fit into a segment at `books.base_offset`. Raises ValueError for a range outside the
        buffer.
        """
        state = self._filter
        state.base_offset, state.interval, state.since_entry, state.max_timestamp, state.max_timestamp_offset = books
        position = state.run(buffer, start, end)
        copied, tail = state.copied, state.tail
        data: list[bytes | memoryview] = []
        if copied:
            data.append(bytes(self._scratch[:copied]))
        if position > tail:
            data.append(buffer[tail:position])
        marks = self._marks[: state.entries * _MARK].tolist()
        return FilteredRun(
            position,
            data,
            copied + position - tail,
            state.records_read,
            state.records_kept,
            state.first_timestamp,
            books._replace(
                bytes_since_index_entry=state.since_entry,
                max_timestamp=state.max_timestamp,
                max_timestamp_offset=state.max_timestamp_offset,
            ),
            [IndexEntry._make(marks[at : at + _MARK]) for at in range(0, len(marks), _MARK)],
        )
