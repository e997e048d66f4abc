"""Producer state snapshots: their files, and the encoding (`.snapshot`; schema ProducerSnapshot version 1 of Kafka's storage module)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from odradek.base.disk import Disk
from odradek.records import crc32c
from odradek.storage.names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_of_file, segment_file

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """Error for a file that is not a snapshot or was damaged."""


class ProducerSnapshotEntry(NamedTuple):
    """Entry of one producer; `last_offset` is -1 without a batch, `txn_first_offset` -1 without an open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_snapshot(entries: Sequence[ProducerSnapshotEntry]) -> bytes:
    body = _COUNT.pack(len(entries)) + b"".join([_ENTRY.pack(*entry) for entry in entries])
    return _HEAD.pack(_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerSnapshotEntry]:
    """Return the entries of a snapshot. Raises CorruptSnapshotError on an unknown version, a wrong checksum or a wrong size."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too short for a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown snapshot version {version}")
    body = data[_HEAD.size :]
    if crc32c.crc32c(body) != crc:
        raise CorruptSnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) - _COUNT.size < count * _ENTRY.size or count < 0:
        raise CorruptSnapshotError(f"{count} entries do not fit into {len(body)} bytes")
    end = _COUNT.size + count * _ENTRY.size
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size : end])]


class SnapshotFiles:
    """Snapshot files of one log, by the offset at which they show the producers. Raises OSError from the disk."""

    __slots__ = ("_disk", "_offsets", "directory")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory
        self._offsets: list[int] | None = None

    @property
    def offsets(self) -> list[int]:
        """Offsets of the files, rising."""
        if self._offsets is None:
            self._offsets = sorted(
                offset
                for name in self._disk.listdir(self.directory)
                if name.endswith(SNAPSHOT_SUFFIX) and (offset := offset_of_file(name)) is not None
            )
        return self._offsets

    def path(self, offset: int) -> str:
        return f"{self.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"

    def read(self, offset: int) -> bytes:
        return self._disk.read_bytes(self.path(offset))

    def write(self, offset: int, data: bytes, *, sync: bool) -> str:
        """Write a file, fsynced with `sync`; return its path."""
        path = self.path(offset)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            file.pwritev([data], 0)
            if sync:
                file.fsync()
        finally:
            file.close()
        offsets = self.offsets
        if offset not in offsets:
            offsets.append(offset)
            offsets.sort()
        return path

    def write_first(self, offset: int, data: bytes) -> None:
        """Write the only file of a log that begins at `offset`, durably with its name."""
        self._disk.write_atomic(self.path(offset), data)
        self.offsets.append(offset)

    def delete(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
            if self._disk.exists(self.path(offset)):
                self._disk.remove(self.path(offset))

    def retire(self, offset: int) -> list[str]:
        """Remove a file without waiting: rename it to `.deleted` and return its path, for the caller to remove later."""
        if offset not in self.offsets:
            return []
        self.offsets.remove(offset)
        path = self.path(offset)
        if not self._disk.exists(path):
            return []
        self._disk.rename(path, path + DELETED_SUFFIX)
        return [path + DELETED_SUFFIX]

    def remove_strays(self, base_offsets: list[int]) -> None:
        """Remove all files but those at segment boundaries and the newest one beyond the last segment."""
        bases = set(base_offsets)
        last_base = max(base_offsets, default=0)
        strays = [offset for offset in self.offsets if offset not in bases]
        keep = strays[-1] if strays and strays[-1] >= last_base else None
        for offset in strays:
            if offset != keep:
                self.delete(offset)

    def overlook_above(self, offset: int) -> None:
        """Ignore newer files, which are then neither read nor removed. For a state that follows only a part of the log."""
        self._offsets = [each for each in self.offsets if each <= offset]
