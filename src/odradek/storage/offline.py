"""Files of a broker's log directories, or of copies of them, read without a broker. Nothing is written, locked or repaired."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from odradek.base.errors import OdradekError, StorageError
from odradek.base.ids import TopicPartition
from odradek.records.batch import LOG_OVERHEAD, BatchHeader, decode_batch, iter_headers
from odradek.storage.checkpoints import DamagedFileError, read_offset_checkpoint
from odradek.storage.disk import OsDisk
from odradek.storage.index import CorruptIndexError
from odradek.storage.names import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    REPLICATION_OFFSET_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    STRAY_DIR_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of_file,
    parse_directory_name,
    segment_file,
)
from odradek.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot
from odradek.storage.txn_index import TransactionIndex

_PIECE: Final = 8 * 1024 * 1024
"""Bytes per read; a larger batch is read whole."""
_ABORT: Final = b"\0\0"
_NOT_LOGS: Final = (DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)
_INDEX_ENTRY: Final = 8
_LENGTH: Final = 8
_NO_LENGTH: Final = bytes(4)


class LogFiles(NamedTuple):
    """Replica of a partition."""

    topic_partition: TopicPartition
    directory: str
    bases: tuple[int, ...]
    """Base offsets of the segments, in order."""
    start: int
    high_watermark: int | None
    """High watermark; None when the checkpoint does not contain the partition."""


class Aborted(NamedTuple):
    """Aborted transaction: its producer, its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions(NamedTuple):
    """Transactions that matter to a read of committed records."""

    aborted: tuple[Aborted, ...]
    stable_end: int
    """Offset below which no transaction is open."""


def find_logs(directories: Iterable[str]) -> dict[TopicPartition, LogFiles]:
    """Return the partitions in log directories; of several replicas of a partition, the one with the highest high watermark.

    Raises OdradekError for a directory that does not exist, that has no log, or whose checkpoints cannot be read.
    """
    found: dict[TopicPartition, LogFiles] = {}
    for each in directories:
        logs = list(_logs_in(Path(each)))
        if not logs:
            raise OdradekError(f"{each} has no logs: it must be a log directory (log.dirs) of a broker, or a copy of one")
        for log in logs:
            other = found.get(log.topic_partition)
            if other is None or (log.high_watermark or 0) > (other.high_watermark or 0):
                found[log.topic_partition] = log
    return found


def _logs_in(directory: Path) -> Iterator[LogFiles]:
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise OdradekError(f"{directory} cannot be read: {error.strerror}") from None
    watermarks, starts = (_checkpoint(directory / name) for name in (REPLICATION_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT))
    for name in names:
        if name.endswith(_NOT_LOGS) or not (directory / name).is_dir():
            continue
        try:
            partition = parse_directory_name(name)
        except StorageError:
            continue
        bases = sorted(
            base for file in os.listdir(directory / name) if file.endswith(LOG_SUFFIX) and (base := offset_of_file(file)) is not None
        )
        if bases:
            start = max(bases[0], starts.get(partition, 0))
            yield LogFiles(partition, str(directory / name), tuple(bases), start, watermarks.get(partition))


def _checkpoint(path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offset_checkpoint(OsDisk(), str(path))
    except FileNotFoundError:
        return {}
    except DamagedFileError as error:
        raise OdradekError(str(error)) from None


def end_of(log: LogFiles) -> int:
    """Return the offset after the last whole batch in the files."""
    end = log.bases[-1]
    for _, header in headers(log, max(log.bases[-1], _last_indexed(log, log.bases[-1], 2**63 - 1)[0])):
        end = header.next_offset
    return end


def transactions(log: LogFiles, end: int) -> Transactions:
    """Return the aborted transactions below `end`, and the first offset of the earliest transaction that is open there."""
    from_index = [each for base in log.bases for each in _indexed_aborts(log, base)]
    begin, open_since = _producers(log, end)
    seen: dict[tuple[int, int], Aborted] = {each[:2]: each for each in from_index}
    for piece, position, header in _batches(log, begin):
        if header.base_offset >= end:
            break
        if header.is_control:
            first = open_since.pop(header.producer_id, None)
            if first is not None and _is_abort(piece, position, header):
                seen.setdefault((header.producer_id, first), Aborted(header.producer_id, first, header.last_offset))
        elif header.is_transactional:
            open_since.setdefault(header.producer_id, header.base_offset)
    return Transactions(tuple(sorted(seen.values(), key=_first_offset)), min([end, *open_since.values()]))


def _first_offset(aborted: Aborted) -> int:
    return aborted.first_offset


def _indexed_aborts(log: LogFiles, base: int) -> list[Aborted]:
    path = os.path.join(log.directory, segment_file(base, TXN_INDEX_SUFFIX))
    try:
        entries = TransactionIndex(OsDisk(), path, base).entries()
    except CorruptIndexError as error:
        raise OdradekError(str(error)) from None
    return [Aborted(each.producer_id, each.first_offset, each.last_offset) for each in entries]


def _producers(log: LogFiles, end: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the last producer snapshot at or before `end`, and first offset by producer id of its open transactions."""
    offsets = [
        offset for name in os.listdir(log.directory) if name.endswith(SNAPSHOT_SUFFIX) and (offset := offset_of_file(name)) is not None
    ]
    for offset in sorted((each for each in offsets if log.bases[0] < each <= end), reverse=True):
        try:
            entries = decode_snapshot(Path(log.directory, segment_file(offset, SNAPSHOT_SUFFIX)).read_bytes())
        except (OSError, CorruptSnapshotError):
            continue
        return offset, {each.producer_id: each.txn_first_offset for each in entries if each.txn_first_offset >= 0}
    return log.bases[0], {}


def _is_abort(piece: bytes, position: int, header: BatchHeader) -> bool:
    records = decode_batch(piece, position, header)
    return bool(records) and records[0].key is not None and records[0].key[2:4] == _ABORT


def headers(log: LogFiles, start: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position in its chunk, header) of the batches from the one that contains `start` on."""
    for _, position, header in _batches(log, start):
        yield position, header


def _batches(log: LogFiles, start: int) -> Iterator[tuple[bytes, int, BatchHeader]]:
    for piece in pieces(log, start):
        for position, header in iter_headers(piece):
            if header.next_offset > start:
                yield piece, position, header


def pieces(log: LogFiles, start: int) -> Iterator[bytes]:
    """Yield chunks of whole batches from the batch that contains `start` on; an incomplete batch at the log's end is left out.

    Raises OdradekError when a file cannot be read, for an impossible length or magic of a batch, and for an incomplete batch in a segment
    that another segment follows.
    """
    first = max(0, bisect_right(log.bases, start) - 1)
    for number, base in enumerate(log.bases[first:], first):
        position = _last_indexed(log, base, start)[1] if number == first else 0
        path = os.path.join(log.directory, segment_file(base, LOG_SUFFIX))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise OdradekError(f"{path} cannot be read: {error.strerror}") from None
        try:
            end = yield from _pieces_of(descriptor, position, os.fstat(descriptor).st_size)
            if number + 1 < len(log.bases) and any(os.pread(descriptor, LOG_OVERHEAD, end)):
                raise OdradekError(f"{path} ends in an incomplete batch at byte {end}, but another segment follows it")
        finally:
            os.close(descriptor)


def _pieces_of(descriptor: int, position: int, size: int) -> Generator[bytes, None, int]:
    """Yield chunks of whole batches, and return the position after the last one."""
    wanted = _PIECE
    while position < size:
        data = os.pread(descriptor, wanted, position)
        whole = _whole(data)
        if whole:
            yield data[:whole]
            position += whole
            wanted = _PIECE
        elif wanted < size - position:
            wanted *= 2
        else:
            break
    return position


def _whole(data: bytes) -> int:
    """Return the size in bytes of the whole batches at the beginning of `data`."""
    whole = 0
    while data[whole + _LENGTH : whole + LOG_OVERHEAD] != _NO_LENGTH:  # Zeros: a preallocated file.
        header = next(iter_headers(memoryview(data)[whole:]), None)
        if header is None:
            break
        whole += header[1].size
    return whole


def _last_indexed(log: LogFiles, base: int, offset: int) -> tuple[int, int]:
    """Return (offset, position) of a batch at or before `offset` from the segment's index; (base, 0) without an entry."""
    try:
        data = Path(log.directory, segment_file(base, ".index")).read_bytes()
    except OSError:
        return base, 0
    entries = [
        (base + int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big"))
        for at in range(0, len(data) - _INDEX_ENTRY + 1, _INDEX_ENTRY)
    ]
    # An index is preallocated and trimmed when its segment is full: zeros follow the last entry.
    used = [entry for entry in entries if entry[1]]
    at = bisect_right(used, (offset, 0)) - 1
    # The offset of an entry is the last one of its batch.
    return used[at] if at >= 0 and used[at][0] <= offset else (base, 0)
