"""Append of batches that carry their offsets already: batches from a leader to its follower, and a Raft leader's own batches.

The sender has validated the records and assigned the offsets. Three checks are left: the CRC of each batch, that its leader epoch is not
later than the sender's, and that offsets rise. The log then writes the bytes unchanged. It takes index entries, epochs and producers from
the headers, which are read once (`records.scan`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, check_crc, read_header
from odradek.records.scan import Scan, ScanEnd, part_of, scan_batches, scan_message
from odradek.storage.append import AppendInfo, UnexpectedAppendOffsetError, read_marker
from odradek.storage.appending import follow_producer, roll, write
from odradek.storage.batch_walk import MAX_RELATIVE_OFFSET
from odradek.storage.flushing import Guarded
from odradek.storage.recovery import follow_batches
from odradek.storage.segment import Segment
from odradek.storage.truncation import harden

if TYPE_CHECKING:
    from odradek.storage.log import Log

_MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
_MOST_BATCHES = 8192
"""Limit of batches in one scan, which bounds its columns to 704 KiB."""


def append_given(log: Log, records: memoryview, leader_epoch: int, *, exact: bool) -> AppendInfo:
    """Append as `Log.append_as_follower`, or with `exact` as `Log.append_raft`."""
    if len(records) >= HEADER_SIZE and (header := read_header(records, 0)).size == len(records):
        return _append_one_given(log, records, header, leader_epoch, exact=exact)
    given = read_given(records, log.log_end_offset, leader_epoch, log.name, exact=exact)
    if not given:
        return AppendInfo(-1, -1, log.log_start_offset)
    now_ms = log.clock.time_ms()
    for scan in given:
        written = _write_given(log, records, scan, now_ms)
        while written < scan.batches:
            written += _write_given(log, records, part_of(scan, written, scan.batches), now_ms)
    return AppendInfo(
        given[0].base_offsets[0],
        log.log_end_offset - 1,
        log.log_start_offset,
        max_timestamp=max([max(scan.max_timestamps) for scan in given]),
        record_count=sum([sum(scan.record_counts) for scan in given]),
        size=given[-1].end,
    )


def _append_one_given(log: Log, batch: memoryview, header: BatchHeader, leader_epoch: int, *, exact: bool) -> AppendInfo:
    """Append a single batch without a scan, at less than half its cost."""
    if not check_given(batch, 0, header, log.log_end_offset, leader_epoch, log.name, exact=exact):
        return AppendInfo(-1, -1, log.log_start_offset)
    base_offset, last_offset, size = header.base_offset, header.last_offset, len(batch)
    write(log, (batch,), size, base_offset, last_offset, header.max_timestamp, header.partition_leader_epoch, log.clock.time_ms())
    if header.producer_id >= 0:
        follow_producer(log, header, base_offset, header.max_timestamp, read_marker(batch, 0, header) if header.is_control else None)
    log.producer_state.map_end_offset = last_offset + 1
    return AppendInfo(
        base_offset,
        last_offset,
        log.log_start_offset,
        max_timestamp=header.max_timestamp,
        record_count=header.record_count,
        size=size,
    )


def _write_given(log: Log, records: memoryview, scan: Scan, now_ms: int) -> int:
    """Write as many batches as fit into one segment, after a roll where needed; return their number."""
    if log.closed:
        raise log.gone()
    segments = log.segments
    with Guarded(log):
        if log.durability.is_cut:
            harden(log)
        segment = segments.active
        count = _fitting(segment, scan, now_ms, segments.segment_bytes, segments.segment_ms)
        if not count:
            segment = roll(log, scan.base_offsets[0])
            # A batch that is larger than a segment gets a segment for itself.
            count = _fitting(segment, scan, now_ms, segments.segment_bytes, segments.segment_ms) or 1
        if count < scan.batches:
            scan = part_of(scan, 0, count)
        file = segment.file
        if max(scan.leader_epochs) > log.leader_epochs.latest_epoch:
            for epoch, base_offset in zip(scan.leader_epochs, scan.base_offsets, strict=True):
                if epoch > log.leader_epochs.latest_epoch:
                    log.leader_epochs.assign(epoch, base_offset, flush=False)
        begin, position = scan.positions[0], segment.size
        file.pwritev((records[begin : scan.positions[-1] + scan.sizes[-1]],), position)
        segment.note_batches(scan, count, position - begin)
        segments.note_position(scan.base_offsets[0], position)
        log.log_end_offset = scan.last_offsets[-1] + 1
        follow_batches(segment, log.producer_state, records, scan, count)
    return count


def _fitting(segment: Segment, scan: Scan, now_ms: int, segment_bytes: int, segment_ms: int) -> int:
    """Return how many of the batches, in order, fit into the segment before it rolls, by the rules of `Segment.should_roll`.

    The result is limited by the free entries of the indexes, so that more batches may fit after these are written.
    """
    count, positions, last_offsets, timestamps = scan.batches, scan.positions, scan.last_offsets, scan.max_timestamps
    if segment.should_roll(scan.sizes[0], last_offsets[0], timestamps[0], now_ms, segment_bytes, segment_ms):
        return 0
    if count == 1:
        return 1
    offsets, times = segment.offset_index, segment.time_index
    count = min(count, max(min(offsets.max_entries - offsets.entries, times.max_entries - 1 - times.entries), 1))
    room, start = segment_bytes - segment.size, positions[0]
    first = segment.first_batch_timestamp if segment.size else timestamps[0]
    longest_ms = segment_ms - segment.roll_jitter_ms

    def fits(count: int) -> bool:
        last = count - 1
        if positions[last] + scan.sizes[last] - start > room or last_offsets[last] - segment.base_offset > MAX_RELATIVE_OFFSET:
            return False
        newest = max(timestamps[:count])
        waited_ms = newest - first if first is not None and first >= 0 else segment.time_waited_for_roll(now_ms, newest)
        return waited_ms <= longest_ms

    if fits(count):
        return count
    # The first batch fits, as checked above; if n batches fit, so do fewer.
    return 1 + bisect_left(range(2, count + 1), True, key=lambda more: not fits(more))


def read_given(records: memoryview, next_offset: int, leader_epoch: int, name: str, *, exact: bool) -> list[Scan]:
    """Return scans of the batches at the beginning of `records` that may be appended to the log `name`, whose end is `next_offset`.

    An incomplete batch at the end is left out. So are all batches from the first one with an epoch above `leader_epoch` on (KAFKA-18723).
    With `exact` no offset may be missing between batches.

    Raises KafkaError CORRUPT_MESSAGE for a damaged batch and UnexpectedAppendOffsetError for offsets that do not continue the log. After an
    error nothing may be appended.
    """
    found: list[Scan] = []
    position = 0
    while True:
        scan = scan_batches(records, position, limit=_likely_batches(records, position), next_offset=next_offset)
        if scan.batches:
            allowed = _of_epochs_up_to(leader_epoch, scan)
            if exact and not scan.contiguous:
                _check_no_gap(scan, allowed, next_offset, name)
            if allowed < scan.batches:
                if allowed:
                    found.append(part_of(scan, 0, allowed))
                return found
            found.append(scan)
            position, next_offset = scan.end, scan.next_offset
        if scan.reason is ScanEnd.BUFFER or scan.reason is ScanEnd.CUT_OFF:
            return found
        if scan.reason is ScanEnd.LIMIT:
            continue
        if scan.reason is ScanEnd.LEGACY and scan.needed > len(records) - position:
            return found
        # Either a message of magic 0 or 1, or a batch that is damaged or out of order.
        header = _header(records, position, name)
        if not check_given(records, position, header, next_offset, leader_epoch, name, exact=exact):
            return found
        found.append(scan_message(position, header))
        position, next_offset = position + header.size, header.next_offset


def check_given(
    records: memoryview, position: int, header: BatchHeader, next_offset: int, leader_epoch: int, name: str, *, exact: bool
) -> bool:
    """Return whether the batch with this header may be appended, False when its epoch is later. Raises as `read_given`."""
    if header.partition_leader_epoch > leader_epoch:
        return False
    if not check_crc(records, position, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record batch at offset {header.base_offset} of {name} is corrupt (stored crc = {header.crc})"
        )
    if header.base_offset < next_offset or (exact and header.base_offset != next_offset):
        raise _unexpected(name, next_offset, header.base_offset, header.last_offset)
    if header.last_offset_delta < 0 or header.next_offset > _MAX_OFFSET:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record batch at offset {header.base_offset} of {name} cannot end at {header.last_offset}"
        )
    return True


def _likely_batches(records: memoryview, position: int) -> int:
    """Return twice the number of batches that fit if all are as large as the first."""
    size = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    return min(_MOST_BATCHES, 2 * (len(records) - position) // max(size, LOG_OVERHEAD) + 2)


def _of_epochs_up_to(leader_epoch: int, scan: Scan) -> int:
    """Return the number of batches before the first one with an epoch above `leader_epoch`."""
    if max(scan.leader_epochs) <= leader_epoch:
        return scan.batches
    return next(index for index, epoch in enumerate(scan.leader_epochs) if epoch > leader_epoch)


def _check_no_gap(scan: Scan, batches: int, next_offset: int, name: str) -> None:
    for index in range(batches):
        if scan.base_offsets[index] != next_offset:
            raise _unexpected(name, next_offset, scan.base_offsets[index], scan.last_offsets[index])
        next_offset = scan.last_offsets[index] + 1


def _header(records: memoryview, position: int, name: str) -> BatchHeader:
    try:
        return read_header(records, position)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{name} has no record batch where one is expected: {error}") from None


def _unexpected(name: str, next_offset: int, first_offset: int, last_offset: int) -> UnexpectedAppendOffsetError:
    return UnexpectedAppendOffsetError(f"Offset {first_offset} was appended to {name} instead of {next_offset}", first_offset, last_offset)
