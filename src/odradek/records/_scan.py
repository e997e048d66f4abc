"""Walk over the headers of many batches in one call, with CRC checks. See `_frames` for how this source is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.records import _checksum, _frames, _raw

if TYPE_CHECKING:
    # For the compiler; the interpreter never reaches the lines that use it.
    import cython  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

_checksum.prepare()

_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1
COLUMNS = 11


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    return _probe()


def _probe() -> bool:
    byte = len("C")
    byte += 255
    return byte == 0


def crc32c(source: bytes) -> int:
    """Return the checksum that `scan` compares with, for tests."""
    view = memoryview(source)
    return _checksum.checksum(_raw.octets(view), 0, len(source))


def scan(
    view: memoryview, position: int, end: int, most: int, columns: memoryview, check_crcs: bool, next_offset: int
) -> tuple[int, int, int, int, int, bool, bool]:
    """Read the headers of up to `most` batches in `view[position:end]` into `columns`, of COLUMNS times `most` int64.

    Returns the number of batches; the position after them; the reason for the stop (scan.ScanEnd); the bytes that the next batch needs, if
    known; the offset after the batches; whether no offset was missing from `next_offset` on; whether any batch has a producer.
    """
    if position < 0 or end > len(view) or position > end or most < 0 or len(columns) < COLUMNS * most:
        raise ValueError(f"Nothing can be scanned from {position} to {end} of {len(view)} bytes")
    data = _raw.octets(view)
    output = _raw.numbers(columns)
    count = needed = 0
    reason = 0
    contiguous = producers = False
    if _probe():
        with cython.nogil:
            count, position, reason, needed, next_offset, contiguous, producers = _scan(
                data, position, end, most, output, check_crcs, next_offset
            )
    else:
        count, position, reason, needed, next_offset, contiguous, producers = _scan(
            data, position, end, most, output, check_crcs, next_offset
        )
    return count, position, reason, needed, next_offset, contiguous, producers


def index_entries(
    positions: memoryview,
    sizes: memoryview,
    last_offsets: memoryview,
    max_timestamps: memoryview,
    begin: int,
    base_offset: int,
    interval: int,
    offsets: memoryview,
    times: memoryview,
    largest: int,
    largest_offset: int,
    since: int,
    last_time: int,
) -> tuple[int, int, int, int, int, int, int]:
    """Write the index entries of batches, as scan.index_entries describes them, to `offsets` (8 bytes an entry) and `times` (12 bytes).

    Returns the number of entries of each, the new values of the last four parameters, and the offset of the last entry of `times` (-1:
    none).
    """
    count = len(positions)
    if not len(sizes) == len(last_offsets) == len(max_timestamps) == count or len(offsets) < 8 * count or len(times) < 12 * count:
        raise ValueError(f"{count} batches do not match their columns, or their entries do not fit into the buffers")
    place = _raw.numbers(positions)
    size = _raw.numbers(sizes)
    last = _raw.numbers(last_offsets)
    newest = _raw.numbers(max_timestamps)
    to_offsets = _raw.room(offsets)
    to_times = _raw.room(times)
    offset_entries = time_entries = 0
    last_time_offset = -1
    for index in range(count):
        if newest[index] > largest:
            largest = newest[index]
            largest_offset = last[index]
        if since > interval:
            _raw.put32(to_offsets, 8 * offset_entries, last[index] - base_offset)
            _raw.put32(to_offsets, 8 * offset_entries + 4, begin + place[index])
            offset_entries += 1
            if largest > last_time:
                last_time = largest
                last_time_offset = largest_offset
                _raw.put64(to_times, 12 * time_entries, largest)
                _raw.put32(to_times, 12 * time_entries + 8, largest_offset - base_offset)
                time_entries += 1
            since = 0
        since += size[index]
    return offset_entries, time_entries, largest, largest_offset, since, last_time, last_time_offset


def _scan(
    data: memoryview, position: int, end: int, most: int, columns: memoryview, check_crcs: bool, next_offset: int
) -> tuple[int, int, int, int, int, bool, bool]:
    contiguous = True
    producers = False
    count = 0
    while position < end:
        left = end - position
        if count == most:
            return count, position, 2, 0, next_offset, contiguous, producers
        if left < 17:
            return count, position, 1, 17, next_offset, contiguous, producers
        length = _raw.signed32(data, position + 8)
        magic = data[position + 16]
        if length < 14 or magic > 2:
            return count, position, 4, 0, next_offset, contiguous, producers
        if magic < 2:
            return count, position, 3, length + 12, next_offset, contiguous, producers
        if length < 49:
            return count, position, 4, 0, next_offset, contiguous, producers
        if length > left - 12:
            return count, position, 1, length + 12, next_offset, contiguous, producers
        base_offset = _raw.signed64(data, position)
        delta = _raw.signed32(data, position + 23)
        last_offset = base_offset + delta
        if last_offset > _MAX64:
            last_offset = _frames.wrap64(last_offset)
        if check_crcs and _raw.unsigned32(data, position + 17) != _checksum.checksum(data, position + 21, length - 9):
            return count, position, 5, length + 12, next_offset, contiguous, producers
        if base_offset < next_offset or delta < 0 or last_offset < base_offset or last_offset == _MAX64:
            return count, position, 6, length + 12, next_offset, contiguous, producers
        records = _raw.signed32(data, position + 57)
        producer_id = _raw.signed64(data, position + 43)
        if base_offset != next_offset or records != delta + 1:
            contiguous = False
        if producer_id >= 0:
            producers = True
        columns[count] = position
        columns[count + most] = length + 12
        columns[count + 2 * most] = base_offset
        columns[count + 3 * most] = last_offset
        columns[count + 4 * most] = _raw.signed32(data, position + 12)
        columns[count + 5 * most] = _raw.signed64(data, position + 35)
        columns[count + 6 * most] = _raw.signed16(data, position + 21)
        columns[count + 7 * most] = producer_id
        columns[count + 8 * most] = _raw.signed16(data, position + 51)
        columns[count + 9 * most] = _raw.signed32(data, position + 53)
        columns[count + 10 * most] = records
        next_offset = last_offset + 1
        position += length + 12
        count += 1
    return count, position, 0, 0, next_offset, contiguous, producers
