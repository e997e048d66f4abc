"""Scanning many batches at a time: their headers as columns, their CRCs checked. For recovery and others who read a log from end to end.

A call works through a buffer of any size without the GIL where the codec is compiled (some GB/s), so that it may run in a thread.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import NamedTuple, cast

from odradek.records import native
from odradek.records.batch import HEADER_SIZE, BatchHeader, Buffer


class ScanEnd(IntEnum):
    """Why a scan stopped at `Scan.end`."""

    BUFFER = 0
    """The last batch ends with the buffer."""
    CUT_OFF = 1
    """The buffer ends within the batch: read on from here, at least `Scan.needed` bytes."""
    LIMIT = 2
    """`limit` batches were found; go on from here."""
    LEGACY = 3
    """A message of magic 0 or 1 begins here; `batch.read_header` and `batch.check_crc` can read it. Its length is `Scan.needed`,
    which may be more than the buffer holds."""
    MALFORMED = 4
    """An impossible length or magic."""
    WRONG_CRC = 5
    """A whole batch whose CRC is wrong."""
    OFFSETS = 6
    """A batch whose base offset lies below the next offset, or its last offset below its base offset."""


_ENDS = tuple(ScanEnd)


class Scan(NamedTuple):
    """What `scan_batches` found: parallel columns of int64, one entry a batch (`tolist()` or `zip` them), and how it ended."""

    batches: int
    """The number of batches."""
    end: int
    """The position in the buffer after the last batch reported, where the scan stopped."""
    reason: ScanEnd
    needed: int
    """Bytes of the whole batch at `end`, where known; 17 when not even that can be read; 0 otherwise."""
    next_offset: int
    """The last offset of the last batch, plus 1; what was passed as `next_offset` when there is no batch."""
    contiguous: bool
    """Whether no offset is missing before or within the batches, as in a log that was never compacted."""
    has_producers: bool
    """Whether any batch has a producer id. If not, nothing of these batches concerns a producer state."""
    positions: memoryview
    """The position of the batch in the buffer."""
    sizes: memoryview
    """Bytes of the whole batch."""
    base_offsets: memoryview
    last_offsets: memoryview
    leader_epochs: memoryview
    max_timestamps: memoryview
    attributes: memoryview
    """As in BatchHeader: the *_MASK constants of `batch` tell its bits."""
    producer_ids: memoryview
    producer_epochs: memoryview
    base_sequences: memoryview
    record_counts: memoryview


_FIRST_COLUMN = Scan._fields.index("positions")


def scan_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, limit: int = 8192, check_crcs: bool = True, next_offset: int = 0
) -> Scan:
    """Reads the batches of magic 2 in `buffer[start:end]` up to the first invalid one, the end, or `limit` batches.

    `limit` bounds memory: 88 bytes a batch. `next_offset` is the least base offset that the first batch may have: for the first call of a
    segment its base offset, then `Scan.next_offset` of the call before. An invalid batch is never reported. Only headers and CRCs are
    looked at, never records. Raises ValueError for a range outside the buffer.
    """
    most = max(min(limit, (len(buffer) - start) // HEADER_SIZE + 1), 0)
    codec = native.codec
    columns = memoryview(bytearray(codec.COLUMNS * most * 8)).cast("q")
    stop = len(buffer) if end is None else end
    count, at, reason, needed, after, contiguous, producers = codec.scan(
        memoryview(buffer), start, stop, most, columns, check_crcs, next_offset
    )
    parts = [columns[index * most : index * most + count] for index in range(codec.COLUMNS)]
    return Scan(count, at, _ENDS[reason], needed, after, contiguous, producers, *parts)


def part_of(scan: Scan, first: int, end: int) -> Scan:
    """The batches `first` to `end` (exclusive, at least one) of a scan, as a scan that was stopped there."""
    columns = [column[first:end] for column in cast("tuple[memoryview, ...]", scan[_FIRST_COLUMN:])]
    position = scan.positions[end - 1] + scan.sizes[end - 1]
    next_offset = scan.last_offsets[end - 1] + 1
    return Scan(end - first, position, ScanEnd.LIMIT, 0, next_offset, scan.contiguous, scan.has_producers, *columns)


def scan_message(position: int, header: BatchHeader) -> Scan:
    """One message of magic 0 or 1, whose header was read at `position`, as a batch of one record; its CRC is not looked at."""
    column = (
        position,
        header.size,
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    columns = [memoryview(array("q", [value])) for value in column]
    return Scan(1, position + header.size, ScanEnd.LIMIT, 0, header.next_offset, False, False, *columns)


class IndexEntries(NamedTuple):
    """The entries that a run of batches adds to a segment's indexes, in the format of Kafka's files, and the state for the next run."""

    offsets: bytes
    """Entries of the offset index: int32 last offset of a batch relative to the segment, int32 position."""
    times: bytes
    """Entries of the time index: int64 timestamp, int32 relative offset."""
    max_timestamp: int
    max_timestamp_offset: int
    bytes_since_entry: int
    last_time: int
    """Timestamp of the time index's last entry."""
    last_time_offset: int
    """Its offset; -1 when `times` is empty."""


def index_entries(
    scan: Scan,
    count: int,
    *,
    begin: int,
    base_offset: int,
    interval: int,
    max_timestamp: int,
    max_timestamp_offset: int,
    bytes_since_entry: int,
    last_time: int,
) -> IndexEntries:
    """The index entries of the first `count` batches, which lie `begin` bytes further on in their file than in the buffer.

    A batch gets an entry when more than `interval` bytes came since the last entry (index.interval.bytes), and one in the time index if the
    largest timestamp has grown since the last entry there (LogSegment.append). Offsets and positions must fit in 31 bits.
    """
    offsets, times = memoryview(bytearray(8 * count)), memoryview(bytearray(12 * count))
    of_offsets, of_times, largest, largest_offset, since, last_time, last_time_offset = native.codec.index_entries(
        scan.positions[:count],
        scan.sizes[:count],
        scan.last_offsets[:count],
        scan.max_timestamps[:count],
        begin,
        base_offset,
        interval,
        offsets,
        times,
        max_timestamp,
        max_timestamp_offset,
        bytes_since_entry,
        last_time,
    )
    return IndexEntries(
        bytes(offsets[: 8 * of_offsets]), bytes(times[: 12 * of_times]), largest, largest_offset, since, last_time, last_time_offset
    )
