"""Checks of batches that carry their offsets already: batches from a leader to its follower, and a Raft leader's own batches.

The sender has validated the records and assigned the offsets. Three checks are left: the CRC of each batch, that its leader epoch is not
later than the sender's, and that offsets rise. The log then writes the bytes unchanged. It takes index entries, epochs and producers from
the headers, which are read once (`records.scan`).
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records.batch import LOG_OVERHEAD, BatchHeader, check_crc, read_header
from odradek.records.scan import Scan, ScanEnd, part_of, scan_batches, scan_message
from odradek.storage.append import UnexpectedAppendOffsetError

_MAX_OFFSET = 0x7FFFFFFFFFFFFFFF
_MOST_BATCHES = 8192
"""Limit of batches in one scan, which bounds its columns to 704 KiB."""


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
