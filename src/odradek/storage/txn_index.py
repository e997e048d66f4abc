"""Transaction index of a segment: the aborted transactions whose marker lies in the segment (Kafka's TransactionIndex, AbortedTxn)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from odradek.base.disk import Disk
from odradek.storage.index import CorruptIndexError

_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """Aborted transaction. `last_offset` is the abort marker's; `last_stable_offset` the log's when the marker was appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Transaction index in a file. The file exists when it has entries, or when a search found none (`leave_file`)."""

    __slots__ = ("_disk", "_entries", "_held", "path", "start_offset")

    def __init__(self, disk: Disk, path: str, start_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.start_offset = start_offset
        self._entries: list[AbortedTransaction] | None = None
        self._held = False

    def entries(self) -> list[AbortedTransaction]:
        """Return the entries in the order of their markers. Raises CorruptIndexError when the file is invalid."""
        if self._entries is None:
            self._entries = list(self._load())
        return self._entries

    def assume_empty(self) -> None:
        """Treat the index as empty without reading, because the file does not exist."""
        self._entries = []

    def _load(self) -> Iterator[AbortedTransaction]:
        try:
            data = self._disk.read_bytes(self.path)
        except FileNotFoundError:
            return
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"{self.path}: {len(data)} bytes are not a multiple of {ENTRY_SIZE}")
        for version, *fields in _ENTRY.iter_unpack(data):
            if version > _VERSION:
                raise CorruptIndexError(f"{self.path}: unknown entry version {version}")
            entry = AbortedTransaction(*fields)
            if entry.last_offset < self.start_offset:
                raise CorruptIndexError(
                    f"{self.path}: last offset {entry.last_offset} is below the first offset of the segment, {self.start_offset}"
                )
            yield entry

    def append(self, entry: AbortedTransaction) -> None:
        entries = self.entries()
        if self._held:
            entries.append(entry)
            return
        file = self._disk.open(self.path, create=True)
        try:
            file.pwritev([_ENTRY.pack(_VERSION, *entry)], len(entries) * ENTRY_SIZE)
        finally:
            file.close()
        entries.append(entry)

    def begin_anew(self) -> None:
        """Begin to rebuild the index; the file is not changed until `complete`.

        An index below the recovery point is rebuilt in this way. A power cut must not leave a part of it, or an empty file: no later
        start would search for the missing entries.
        """
        self._entries = []
        self._held = True

    def complete(self, *, only_if_needed: bool = False) -> None:
        """Replace the file, durably, by the entries appended since `begin_anew`.

        With `only_if_needed` a missing or empty file is left alone when there are no entries.
        """
        self._held = False
        if only_if_needed and not self._entries and not (self._disk.exists(self.path) and self._disk.read_bytes(self.path)):
            return
        self._disk.write_atomic(self.path, b"".join([_ENTRY.pack(_VERSION, *entry) for entry in self.entries()]))

    def leave_file(self) -> None:
        """Create an empty file unless the file exists. The empty file says that no entry is missing."""
        self._disk.open(self.path, create=True).close()

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that overlap [fetch_offset, upper_bound), and True when no later segment can hold another."""
        found: list[AbortedTransaction] = []
        for entry in self.entries():
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove every transaction whose marker is at or above `offset`."""
        entries = self.entries()
        keep = len(entries)
        while keep and entries[keep - 1].last_offset >= offset:
            keep -= 1
        if keep < len(entries):
            del entries[keep:]
            self._cut(keep * ENTRY_SIZE)

    def reset(self) -> None:
        self._entries = []
        if not self._held and self._disk.exists(self.path):
            self._cut(0)

    def _cut(self, size: int) -> None:
        file = self._disk.open(self.path)
        try:
            file.truncate(size)
        finally:
            file.close()

    def fsync(self) -> None:
        if self._entries and self._disk.exists(self.path):
            file = self._disk.open(self.path)
            try:
                file.fsync()
            finally:
                file.close()
