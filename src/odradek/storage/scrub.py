"""Search for damage in whole log directories, without a broker and without changes (`storage scrub`).

Kafka has no such tool: there, damage below the recovery point shows when a client fetches it. Memory is bounded by a read of a megabyte (or
the largest batch), the indexes of one segment and the open transactions. Nothing is decompressed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from odradek.base.disk import Disk, File
from odradek.base.errors import OdradekError, StorageError
from odradek.base.ids import TopicPartition
from odradek.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, check_crc, read_header
from odradek.records.scan import Scan, ScanEnd, scan_batches
from odradek.storage.append import read_marker
from odradek.storage.checkpoints import read_clean_shutdown, read_epoch_checkpoint, read_offset_checkpoint, read_partition_metadata
from odradek.storage.index import CorruptIndexError
from odradek.storage.meta_properties import read_meta_properties
from odradek.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    DELETE_DIR_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of_file,
    parse_directory_name,
    segment_file,
)
from odradek.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot
from odradek.storage.txn_index import ENTRY_SIZE, TransactionIndex

_CHUNK = 1 << 20
_BATCHES = 2048
_SMALLEST = 17
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)


class Finding(NamedTuple):
    """Damage in a file."""

    path: str
    text: str
    position: int = -1
    """Bytes from the start of the file; -1 where no position applies."""
    offset: int = -1
    """First offset concerned; -1 where no offset applies."""
    unflushed: bool = False
    """True if the damage lies beyond the recovery point of a directory that was not shut down cleanly, so that the next start recovers it.
    """

    def __str__(self) -> str:
        where = f"{self.path}:" if self.position < 0 else f"{self.path}: position {self.position}:"
        offset = "" if self.offset < 0 else f" (offset {self.offset})"
        return f"{where} {self.text}{offset}{', which the next start recovers' if self.unflushed else ''}"


class ScrubProgress(NamedTuple):
    """Progress of a scrub over all directories."""

    directory: str
    log: str
    """Log that is being read. After the last log of a directory, that log is reported again."""
    logs: int
    """Number of logs that were read or begun."""
    bytes_read: int
    """Bytes read of `.log` files."""


def scrub(disk: Disk, directories: Sequence[str], on_progress: Callable[[ScrubProgress], None] | None = None) -> Iterator[Finding]:
    """Yield findings in the log directories, in the order of their paths.

    `on_progress` is called before and after each log. Nothing is changed; the `.lock` files are held while the scrub runs.

    Raises StorageError, before any log is read, when a broker holds a directory.
    """
    with ExitStack() as locks:
        readable: list[str] = []
        for directory in directories:
            if not disk.is_dir(directory):
                yield Finding(directory, "is not a directory")
                continue
            try:
                locks.callback(disk.lock(f"{directory}/{LOCK_FILE}").release)
            except BlockingIOError:
                raise StorageError(f"{directory} is in use by a broker: stop the broker before its log directories are scrubbed") from None
            readable.append(directory)
        logs = bytes_read = 0
        for directory in readable:
            one = _Directory(disk, directory, on_progress, logs, bytes_read)
            yield from one.scrub()
            logs, bytes_read = one.logs, one.bytes_read


def _readable(path: str, read: Callable[[], object]) -> Iterator[Finding]:
    try:
        read()
    except (OSError, OdradekError) as error:
        yield Finding(path, f"cannot be read: {error}")


class _Directory:
    def __init__(self, disk: Disk, path: str, on_progress: Callable[[ScrubProgress], None] | None, logs: int, bytes_read: int) -> None:
        self._disk = disk
        self._path = path
        self._on_progress = on_progress
        self.logs = logs
        self.bytes_read = bytes_read

    def scrub(self) -> Iterator[Finding]:
        disk, path = self._disk, self._path
        yield from _readable(f"{path}/{META_PROPERTIES}", partial(read_meta_properties, disk, path))
        for checkpoint in _CHECKPOINTS:
            yield from _readable(f"{path}/{checkpoint}", partial(read_offset_checkpoint, disk, f"{path}/{checkpoint}"))
        flushed = self._flushed()
        names = [name for name in disk.listdir(path) if disk.is_dir(f"{path}/{name}") and name != "lost+found"]
        for name in names:
            if name.endswith(DELETE_DIR_SUFFIX):
                continue
            try:
                topic_partition = parse_directory_name(name)
            except StorageError as error:
                yield Finding(f"{path}/{name}", str(error))
                continue
            self.logs += 1
            self._report(name)
            log = LogScrub(disk, f"{path}/{name}", None if flushed is None else flushed.get(topic_partition, 0))
            yield from log.findings()
            self.bytes_read += log.bytes_read
            self._report(name)

    def _report(self, log: str) -> None:
        if self._on_progress is not None:
            self._on_progress(ScrubProgress(self._path, log, self.logs, self.bytes_read))

    def _flushed(self) -> dict[TopicPartition, int] | None:
        """Return the recovery points; None after a clean shutdown."""
        if read_clean_shutdown(self._disk, f"{self._path}/{CLEAN_SHUTDOWN_FILE}") is not None:
            return None
        try:
            return read_offset_checkpoint(self._disk, f"{self._path}/{RECOVERY_POINT_CHECKPOINT}")
        except (OSError, StorageError):
            return {}


class LogScrub:
    """Scrub of one log, segment by segment. `recovery_point` is None when all of it counts as flushed."""

    def __init__(self, disk: Disk, directory: str, recovery_point: int | None) -> None:
        self._disk = disk
        self._directory = directory
        self._recovery_point = recovery_point
        self._next_offset = 0
        self._open_transactions: dict[int, int] = {}
        """First offset by producer id."""
        self.bytes_read = 0

    def findings(self) -> Iterator[Finding]:
        disk, directory = self._disk, self._directory
        try:
            names = disk.listdir(directory)
        except OSError as error:
            yield Finding(directory, f"cannot be read: {error}")
            return
        yield from _readable(
            f"{directory}/{PARTITION_METADATA}", lambda: read_partition_metadata(disk, f"{directory}/{PARTITION_METADATA}")
        )
        yield from self._epochs(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        bases = sorted(offset for name in names if name.endswith(LOG_SUFFIX) and (offset := offset_of_file(name)) is not None)
        for name in names:
            base = offset_of_file(name)
            if name.endswith(SNAPSHOT_SUFFIX) and base is not None:
                yield from self._snapshot(f"{directory}/{name}", base)
            elif name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)) and base is not None and base not in bases:
                yield Finding(f"{directory}/{name}", "an index without its log")
        for index, base in enumerate(bases):
            unflushed = self._recovery_point is not None and (index + 1 == len(bases) or bases[index + 1] > self._recovery_point)
            try:
                yield from self._segment(base, set(names), unflushed=unflushed)
            except OSError as error:
                yield Finding(f"{directory}/{segment_file(base, LOG_SUFFIX)}", f"cannot be read: {error}")

    def _epochs(self, path: str) -> Iterator[Finding]:
        try:
            entries = read_epoch_checkpoint(self._disk, path)
        except (OSError, StorageError) as error:
            yield Finding(path, f"cannot be read: {error}")
            return
        for before, after in pairwise(entries):
            if after[0] <= before[0] or after[1] < before[1]:
                yield Finding(path, f"epoch {after[0]} from offset {after[1]} follows epoch {before[0]} from {before[1]}", offset=after[1])

    def _snapshot(self, path: str, base: int) -> Iterator[Finding]:
        try:
            decode_snapshot(self._disk.read_bytes(path))
        except (OSError, CorruptSnapshotError) as error:
            yield Finding(path, f"malformed producer snapshot: {error}", offset=base)

    def _segment(self, base: int, names: set[str], *, unflushed: bool) -> Iterator[Finding]:
        path = f"{self._directory}/{segment_file(base, LOG_SUFFIX)}"
        if self._next_offset > base:
            yield Finding(path, f"the previous segment contains offsets up to {self._next_offset - 1}", offset=base)
        self._next_offset = base
        indexes = None if unflushed else _Indexes(self._disk, self._directory, base, names)
        file = self._disk.open(path, readonly=True)
        try:
            for finding in self._batches(file, path, indexes):
                yield finding._replace(unflushed=unflushed and finding.offset >= (self._recovery_point or 0))
            self.bytes_read += file.size()
        finally:
            file.close()
        if indexes is not None:
            yield from indexes.finish()

    def _batches(self, file: File, path: str, indexes: _Indexes | None) -> Iterator[Finding]:
        position, size, want = 0, file.size(), _CHUNK
        while position < size:
            data = memoryview(file.pread(min(want, size - position), position))
            want = _CHUNK
            scan = scan_batches(data, limit=_BATCHES, next_offset=self._next_offset)
            if scan.batches:
                self._take(scan, data, position, indexes)
            position += scan.end
            left = len(data) - scan.end
            if scan.reason in (ScanEnd.BUFFER, ScanEnd.LIMIT):
                continue
            if scan.reason in (ScanEnd.CUT_OFF, ScanEnd.LEGACY) and (scan.needed > left or left < _SMALLEST):
                if position + scan.needed > size or size - position < _SMALLEST:
                    yield Finding(path, f"{size - position} bytes are not a complete batch", position, self._next_offset)
                    return
                if not scan.batches:
                    want = max(scan.needed, _CHUNK)
                continue
            finding, skipped = self._wrong(scan, data[scan.end :], path, position, indexes)
            if finding is not None:
                yield finding
            if not skipped:
                return
            position += skipped

    def _wrong(self, scan: Scan, data: memoryview, path: str, position: int, indexes: _Indexes | None) -> tuple[Finding | None, int]:
        """Return the damage of the batch at the beginning of `data`, and the bytes after which the next batch may begin; 0 when unknown."""
        first = self._next_offset
        if scan.reason is ScanEnd.MALFORMED or scan.needed > len(data):
            return Finding(path, "a batch has an impossible length or magic: the rest of the segment is not checked", position, first), 0
        try:
            header = read_header(data, 0)
        except OdradekError as error:
            return Finding(path, f"malformed batch: {error}; the rest of the segment is not checked", position, first), 0
        if indexes is not None:
            indexes.note(position, header.base_offset, header.last_offset, header.max_timestamp, exact=False)
        if not check_crc(data, 0, header):
            self._next_offset = max(first, header.base_offset)
            return Finding(path, f"the checksum of a batch of {header.size} bytes is wrong", position, first), header.size
        if header.base_offset < first or header.last_offset < header.base_offset:
            text = f"a batch of offsets {header.base_offset} to {header.last_offset} where {first} or a later one should follow"
            return Finding(path, text, position, header.base_offset), header.size
        self._next_offset = header.next_offset
        return None, header.size

    def _take(self, scan: Scan, data: memoryview, begin: int, indexes: _Indexes | None) -> None:
        if indexes is not None:
            for index in range(scan.batches):
                position, last_offset = begin + scan.positions[index], scan.last_offsets[index]
                indexes.note(position, scan.base_offsets[index], last_offset, scan.max_timestamps[index], exact=True)
        if scan.has_producers:
            for index in range(scan.batches):
                attributes, producer = scan.attributes[index], scan.producer_ids[index]
                if attributes & CONTROL_MASK and producer >= 0:
                    self._marker(data, scan.positions[index], indexes)
                elif attributes & TRANSACTIONAL_MASK:
                    self._open_transactions.setdefault(producer, scan.base_offsets[index])
        self._next_offset = scan.next_offset

    def _marker(self, data: memoryview, at: int, indexes: _Indexes | None) -> None:
        header = read_header(data, at)
        marker = read_marker(data, at, header)
        if marker is not None:
            known = self._open_transactions.pop(header.producer_id, None) is not None
            if indexes is not None:
                indexes.note_marker(header.producer_id, header.base_offset, aborted=marker.aborted, known=known)


class _Indexes:
    """Comparison of the three indexes of a segment with its batches, one after the other."""

    def __init__(self, disk: Disk, directory: str, base: int, names: set[str]) -> None:
        self._disk = disk
        self._base = base
        self._paths = [f"{directory}/{segment_file(base, suffix)}" for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
        self._found: list[Finding] = []
        if segment_file(base, INDEX_SUFFIX) not in names:
            self._found.append(Finding(self._paths[0], "the offset index is missing", offset=base))
        self._offsets = self._entries(self._paths[0], _OFFSET_ENTRY, names)
        self._times = self._entries(self._paths[1], _TIME_ENTRY, names)
        self._next_entry = self._next_time = 0
        self._largest = -1
        self._check_rising(self._paths[0], self._offsets, _OFFSET_ENTRY.size)
        self._check_rising(self._paths[1], self._times, _TIME_ENTRY.size)
        self._aborted = self._transactions()

    def _entries(self, path: str, entry: struct.Struct, names: set[str]) -> list[tuple[int, int]]:
        if path.rpartition("/")[2] not in names:
            return []
        data = self._disk.read_bytes(path)
        if len(data) % entry.size:
            self._found.append(Finding(path, f"{len(data)} bytes are not a multiple of {entry.size}", len(data) // entry.size * entry.size))
        whole = len(data) // entry.size * entry.size
        zero = bytes(entry.size)
        while whole and data[whole - entry.size : whole] == zero:
            whole -= entry.size  # preallocated
        return [(first, second) for first, second in entry.iter_unpack(data[:whole])]

    def _check_rising(self, path: str, entries: list[tuple[int, int]], size: int) -> None:
        for index, (before, after) in enumerate(pairwise(entries), 1):
            if after[0] <= before[0] or after[1] <= before[1]:
                self._found.append(Finding(path, f"entry {after} follows {before}", index * size))

    def _transactions(self) -> dict[tuple[int, int], int]:
        """Return the position in the file by (producer id, offset of the marker)."""
        index = TransactionIndex(self._disk, self._paths[2], self._base)
        found: dict[tuple[int, int], int] = {}
        try:
            for number, entry in enumerate(index.entries()):
                found[entry.producer_id, entry.last_offset] = number * ENTRY_SIZE
        except CorruptIndexError as error:
            self._found.append(Finding(self._paths[2], f"malformed transaction index: {error}", offset=self._base))
        return found

    def note(self, position: int, base_offset: int, last_offset: int, max_timestamp: int, *, exact: bool) -> None:
        """Compare the indexes with a batch. `exact` is False for a damaged batch, of which only the position is trusted."""
        entries = self._offsets
        while self._next_entry < len(entries) and entries[self._next_entry][1] <= position:
            relative, at = entries[self._next_entry]
            if at < position:
                self._lies(self._next_entry, "no batch starts there")
            elif exact and self._base + relative < base_offset:
                self._lies(self._next_entry, f"a batch of offset {base_offset} starts there")
            self._next_entry += 1
        times = self._times
        while self._next_time < len(times) and self._base + times[self._next_time][1] <= last_offset:
            timestamp, relative = times[self._next_time]
            if exact and (timestamp != max_timestamp or self._largest > timestamp):
                text = f"timestamp {timestamp} for a batch whose largest is {max_timestamp}, the largest before it {self._largest}"
                self._found.append(Finding(self._paths[1], text, self._next_time * _TIME_ENTRY.size, self._base + relative))
            self._next_time += 1
        if exact:
            self._largest = max(self._largest, max_timestamp)

    def _lies(self, entry: int, why: str) -> None:
        relative, position = self._offsets[entry]
        text = f"says that offset {self._base + relative} is at position {position}, but {why}"
        self._found.append(Finding(self._paths[0], text, entry * _OFFSET_ENTRY.size, self._base + relative))

    def note_marker(self, producer_id: int, offset: int, *, aborted: bool, known: bool) -> None:
        """Compare the transaction index with the end of a transaction; `known` says that the transaction began in this log."""
        entry = self._aborted.pop((producer_id, offset), None)
        if aborted and known and entry is None:
            self._found.append(Finding(self._paths[2], f"lacks the aborted transaction of producer {producer_id}", offset=offset))
        elif not aborted and entry is not None:
            self._found.append(
                Finding(self._paths[2], f"producer {producer_id} committed a transaction that is listed as aborted", entry, offset)
            )

    def finish(self) -> Iterator[Finding]:
        """Finish the comparison after the last batch, and yield all findings."""
        for entry in range(self._next_entry, len(self._offsets)):
            self._lies(entry, "the segment ends before it")
        for entry in range(self._next_time, len(self._times)):
            text = "an offset beyond the end of the segment"
            self._found.append(Finding(self._paths[1], text, entry * _TIME_ENTRY.size, self._base + self._times[entry][1]))
        for (producer_id, offset), position in self._aborted.items():
            self._found.append(Finding(self._paths[2], f"producer {producer_id} has no marker there", position, offset))
        yield from self._found
