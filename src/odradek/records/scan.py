"""Scan of many batches at a time: headers as columns, CRCs checked. For recovery and other readers of whole logs.

A call works through a buffer of any size without the GIL where the codec is compiled (some GB/s), so that it may run in a thread.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import NamedTuple, cast

from odradek.records import native
from odradek.records.batch import HEADER_SIZE, BatchHeader, Buffer


class ScanEnd(IntEnum):
    """Reason why a scan stopped at `Scan.end`."""

    BUFFER = 0
    """The last batch ends with the buffer."""
    CUT_OFF = 1
    """The buffer ends within the batch: read on from here, at least `Scan.needed` bytes."""
    LIMIT = 2
    """`limit` batches were found; continue from here."""
    LEGACY = 3
    """A message of magic 0 or 1 begins here; `batch.read_header` and `batch.check_crc` can read it.

    Its length is `Scan.needed`, which may exceed the buffer.
    """
    MALFORMED = 4
    """The length or the magic of the batch is impossible."""
    WRONG_CRC = 5
    """The batch is whole, and its CRC is wrong."""
    OFFSETS = 6
    """The base offset of the batch lies below the next offset, or its last offset below its base offset."""


_ENDS = tuple(ScanEnd)


class Scan(NamedTuple):
    """Result of `scan_batches`: parallel columns of int64, one entry a batch (`tolist()` or `zip` them), and the reason for the end."""

    batches: int
    """Number of batches."""
    end: int
    """Position in the buffer after the last reported batch, where the scan stopped."""
    reason: ScanEnd
    needed: int
    """Bytes of the whole batch at `end`, where known; 17 when its size cannot be read; 0 otherwise."""
    next_offset: int
    """Last offset of the last batch, plus 1; without a batch the `next_offset` that was passed."""
    contiguous: bool
    """True if no offset is missing before or within the batches, as in a log that was never compacted."""
    has_producers: bool
    """True if any batch has a producer id. If not, these batches do not change a producer state."""
    positions: memoryview
    """Position of the batch in the buffer."""
    sizes: memoryview
    """Bytes of the whole batch."""
    base_offsets: memoryview
    last_offsets: memoryview
    leader_epochs: memoryview
    max_timestamps: memoryview
    attributes: memoryview
    """As in BatchHeader; the *_MASK constants of `batch` name the bits."""
    producer_ids: memoryview
    producer_epochs: memoryview
    base_sequences: memoryview
    record_counts: memoryview


_FIRST_COLUMN = Scan._fields.index("positions")


def scan_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, limit: int = 8192, check_crcs: bool = True, next_offset: int = 0
) -> Scan:
    """Read the batches of magic 2 in `buffer[start:end]` up to the first invalid one, the end, or `limit` batches.

    `limit` bounds memory: 88 bytes a batch. `next_offset` is the least base offset allowed for the first batch: for the first call of a
    segment its base offset, then `Scan.next_offset` of the previous call. An invalid batch is never reported. Only headers and CRCs are
    checked, never records.

    Raises ValueError for a range outside the buffer.
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
    """Return the batches `first` to `end` (exclusive, at least one batch) of a scan, as a scan that stopped there."""
    columns = [column[first:end] for column in cast("tuple[memoryview, ...]", scan[_FIRST_COLUMN:])]
    position = scan.positions[end - 1] + scan.sizes[end - 1]
    next_offset = scan.last_offsets[end - 1] + 1
    return Scan(end - first, position, ScanEnd.LIMIT, 0, next_offset, scan.contiguous, scan.has_producers, *columns)


def scan_message(position: int, header: BatchHeader) -> Scan:
    """Return one message of magic 0 or 1, whose header was read at `position`, as a scan of one batch. The CRC is not checked."""
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
    """Entries that a run of batches adds to a segment's indexes, in the format of Kafka's files, and the state for the next run."""

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
    """Offset of the time index's last entry; -1 when `times` is empty."""


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
    """Return the index entries of the first `count` batches; `begin` is added to their positions in the buffer.

    A batch gets an entry when more than `interval` bytes follow the last entry (index.interval.bytes). The time index gets an entry if the
    largest timestamp has also grown since the last entry there (LogSegment.append). Offsets and positions must fit in 31 bits.
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
