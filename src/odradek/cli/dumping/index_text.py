"""Text of indexes and producer snapshots, and errors of indexes that a comparison with their segment shows.

Source: DumpLogSegments.dumpIndex, dumpTimeIndex, dumpTxnIndex, dumpProducerIdSnapshot.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, TypeVar

from odradek.base.disk import Disk, File
from odradek.cli.dumping.batches import FileBatch, UnreadableError, read_batches
from odradek.cli.dumping.log_text import ALL_BYTES, base_offset
from odradek.records import crc32c
from odradek.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot

T = TypeVar("T")

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = struct.Struct(">hI")
_SNAPSHOT_VERSION: Final = 1
_ABORTED_VERSION: Final = 0
_WARM_ENTRIES: Final = 8192 // _OFFSET_ENTRY.size
_SEQUENCES: Final = 1 << 31


class IndexText:
    """Text of the indexes of one run of the tool. Errors of an index are collected under its absolute path."""

    def __init__(self, disk: Disk, *, sanity_only: bool, verify_only: bool, max_message_size: int) -> None:
        self._disk = disk
        self._sanity_only = sanity_only
        self._verify_only = verify_only
        self._max_message_size = max_message_size
        self.mismatches: dict[str, dict[int, int]] = {}
        """Offset in the log by offset in the offset index, by path, where the two differ."""
        self.wrong_times: dict[str, list[tuple[int, int]]] = {}
        self.unordered_times: dict[str, list[tuple[int, int]]] = {}
        self.missing_offsets: dict[str, list[tuple[int, int]]] = {}

    def offsets(self, path: str) -> Iterator[str]:
        """Yield the lines of an offset index. Raises UnreadableError or OSError when the index or its segment cannot be read."""
        base, data = base_offset(os.path.basename(path)), self._disk.read_bytes(path)
        log_path = _beside(path, ".log")
        log = self._disk.open(log_path, readonly=True)
        try:
            entries = _whole(data, _OFFSET_ENTRY)
            if not entries:
                yield f"{path} is empty."
                return
            if self._sanity_only:
                _check(path, data, _OFFSET_ENTRY, entries[-1][0] >= 0, "its last offset is lower than the segment's base offset")
                yield f"{path} passed sanity check."
                return
            for number, (relative, position) in enumerate(entries):
                if relative == 0 and number > 0:  # zeros: the unused rest of a preallocated file after a crash
                    return
                found = self._batch_at(log, log_path, position).header.last_offset
                if found != base + relative:
                    self.mismatches.setdefault(os.path.abspath(path), {})[base + relative] = found
                if not self._verify_only:
                    yield f"offset: {base + relative} position: {position}"
        finally:
            log.close()

    def _batch_at(self, log: File, path: str, position: int) -> FileBatch:
        size = log.size()
        if not 0 <= position <= size:
            raise UnreadableError(f"position {position} of the index is beyond the end of {path} ({size} bytes)")
        for batch in read_batches(log, path, position, min(size, position + self._max_message_size)):
            return batch
        raise UnreadableError(f"no batch of at most {self._max_message_size} bytes begins at position {position} of {path}")

    def times(self, path: str) -> Iterator[str]:
        """Yield the lines of a time index. Raises UnreadableError or OSError when it, its segment or its offset index cannot be read."""
        base, data = base_offset(os.path.basename(path)), self._disk.read_bytes(path)
        positions = _whole(self._disk.read_bytes(_beside(path, ".index")), _OFFSET_ENTRY)
        log_path = _beside(path, ".log")
        log = self._disk.open(log_path, readonly=True)
        try:
            entries = _whole(data, _TIME_ENTRY)
            if self._sanity_only:
                sound = not entries or (entries[-1][0] >= entries[0][0] and entries[-1][1] >= 0)
                _check(path, data, _TIME_ENTRY, sound, "its last entry is smaller than its first")
                yield f"{path} passed sanity check."
                return
            before = -1
            for number, (timestamp, relative) in enumerate(entries):
                if relative == 0 and number > 0:
                    return
                self._check_time(os.path.abspath(path), log, log_path, _position(positions, relative), timestamp, base + relative, before)
                if not self._verify_only:
                    yield f"timestamp: {timestamp} offset: {base + relative}"
                before = timestamp
        finally:
            log.close()

    def _check_time(self, name: str, log: File, log_path: str, position: int, timestamp: int, offset: int, before: int) -> None:
        size = log.size()
        if not 0 <= position <= size:
            raise UnreadableError(f"position {position} of the index is beyond the end of {log_path} ({size} bytes)")
        batches = read_batches(log, log_path, position, min(size, position + ALL_BYTES))
        batch = next((batch for batch in batches if batch.header.last_offset >= offset), None)
        if batch is None or batch.header.last_offset != offset:
            self.missing_offsets.setdefault(name, []).append((offset, -1 if batch is None else batch.header.last_offset))
            return
        latest = max((record.timestamp for record in batch.records()), default=-1)
        if latest != timestamp:
            self.wrong_times.setdefault(name, []).append((timestamp, latest))
        if before >= timestamp:
            self.unordered_times.setdefault(name, []).append((timestamp, before))

    def remarks(self) -> Iterator[str]:
        """Yield the lines about all errors, for standard error, after all files are read."""
        for name, mismatches in in_java_order(self.mismatches):
            yield f"Mismatches in :{name}"
            for offset, found in sorted(mismatches.items(), reverse=True):
                yield f"  Index offset: {offset}, log offset: {found}"
        for name, times in in_java_order(self.wrong_times):
            yield f"Found timestamp mismatch in :{name}"
            yield from [f"  Index timestamp: {index}, log timestamp: {log}" for index, log in times]
        for name, times in in_java_order(self.unordered_times):
            yield f"Found out of order timestamp in :{name}"
            yield from [f"  Index timestamp: {index}, Previously indexed timestamp: {before}" for index, before in times]
        for name, offsets in in_java_order(self.missing_offsets):
            yield f"The following indexed offsets are not found in :{name}"
            yield from [f"Indexed offset: {index}, found log offset: {found}" for index, found in offsets]


def in_java_order(found: dict[str, T]) -> list[tuple[str, T]]:
    """Return the items in the order of Java's HashMap, that is of its buckets."""
    buckets = 16
    while len(found) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        code = 0
        units = name.encode("utf-16-be", "surrogatepass")
        for (unit,) in struct.iter_unpack(">H", units):
            code = (code * 31 + unit) & 0xFFFFFFFF
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(found.items(), key=lambda item: bucket(item[0]))


def aborted_transactions(disk: Disk, path: str) -> Iterator[str]:
    """Yield the lines of a transaction index. Raises UnreadableError for a truncated entry or a later version."""
    data = disk.read_bytes(path)
    for at in range(0, len(data), _ABORTED_ENTRY.size):
        if at + _ABORTED_ENTRY.size > len(data):
            raise UnreadableError(f"{path} ends within the entry at position {at}")
        version, producer_id, first, last, stable = _ABORTED_ENTRY.unpack_from(data, at)
        if version > _ABORTED_VERSION:
            raise UnreadableError(f"Unexpected aborted transaction version {version} in transaction index {path}")
        yield f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}"


def producers(disk: Disk, path: str) -> Iterator[str]:
    """Yield the lines of a producer snapshot.

    Raises CorruptSnapshotError for a malformed snapshot, with Kafka's message for a wrong version or checksum.
    """
    data = disk.read_bytes(path)
    if len(data) >= _SNAPSHOT_HEAD.size:
        version, stored = _SNAPSHOT_HEAD.unpack_from(data)
        computed = crc32c.crc32c(data[_SNAPSHOT_HEAD.size :])
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshotError(f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}")
        if stored != computed:
            raise CorruptSnapshotError(f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}")
    for entry in decode_snapshot(data):
        first = "OptionalLong.empty" if entry.txn_first_offset < 0 else f"OptionalLong[{entry.txn_first_offset}]"
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: {first} lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            line += (
                f" firstSequence: {(entry.last_sequence - entry.offset_delta) % _SEQUENCES} lastSequence: {entry.last_sequence}"
                f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        yield line


def _beside(path: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(path), os.path.basename(path).partition(".")[0] + suffix)


def _whole(data: bytes, entry: struct.Struct) -> list[tuple[int, int]]:
    return [(first, second) for first, second in entry.iter_unpack(data[: len(data) // entry.size * entry.size])]


def _check(path: str, data: bytes, entry: struct.Struct, sound: bool, problem: str) -> None:
    if not sound:
        raise UnreadableError(f"Corrupt index found, index file ({path}): {problem}")
    if len(data) % entry.size:
        raise UnreadableError(f"Corrupt index found, index file ({path}): {len(data)} bytes are not a multiple of {entry.size}")


def _position(entries: list[tuple[int, int]], relative: int) -> int:
    """Return the position of the last entry at or below an offset; 0 without such an entry.

    The search is Kafka's, and finds the same entry as Kafka even when the entries are out of order.
    """
    if not entries:
        return 0
    hot = max(0, len(entries) - 1 - _WARM_ENTRIES)
    if entries[hot][0] < relative:
        return entries[_bisect(entries, relative, hot, len(entries) - 1)][1]
    if entries[0][0] > relative:
        return 0
    return entries[_bisect(entries, relative, 0, hot)][1]


def _bisect(entries: list[tuple[int, int]], relative: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high + 1) // 2
        found = entries[middle][0]
        if found == relative:
            return middle
        if found > relative:
            high = middle - 1
        else:
            low = middle
    return low
