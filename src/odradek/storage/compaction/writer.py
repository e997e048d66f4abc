"""Segment that a cleaning is writing: `.log.cleaned` and its indexes."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.records.runs import FilteredRun, SegmentBooks
from odradek.storage.batch_walk import MAX_RELATIVE_OFFSET
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from odradek.storage.segment import SegmentLimits
from odradek.storage.txn_index import AbortedTransaction, TransactionIndex


class CleanedSegment:
    """Cleaned segment, private to the cleaning until `complete` has made its files durable.

    May be used in any thread, one at a time. Raises OSError from the disk.
    """

    __slots__ = (
        "_buffered",
        "_bytes_since_index_entry",
        "_disk",
        "_file",
        "_limits",
        "_offset_index",
        "_pending",
        "_time_index",
        "_write_bytes",
        "base_offset",
        "directory",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, limits: SegmentLimits, write_bytes: int) -> None:
        """Begin with empty files, whatever an earlier cleaning left. `write_bytes` are gathered before they are written."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self._limits = limits
        self._write_bytes = write_bytes
        self._pending: list[bytes | bytearray | memoryview] = []
        self._buffered = 0
        self._bytes_since_index_entry = 0
        self.size = 0
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.remove()
        self._file = disk.open(self.path(LOG_SUFFIX), create=True)
        self._offset_index = OffsetIndex(disk, self.path(INDEX_SUFFIX), base_offset, limits.segment_index_bytes)
        self._time_index = TimeIndex(disk, self.path(TIME_INDEX_SUFFIX), base_offset, limits.segment_index_bytes)

    def path(self, suffix: str) -> str:
        """Return the path of the file that becomes `<base offset><suffix>`."""
        return f"{self.directory}/{segment_file(self.base_offset, suffix)}{CLEANED_SUFFIX}"

    def append(self, batch: bytes | memoryview, last_offset: int, max_timestamp: int) -> None:
        """Add a batch at the end. Raises StorageError when the segment cannot hold its offset."""
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise StorageError(f"Offset {last_offset} does not fit into the cleaned segment {self.path(LOG_SUFFIX)}")
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_index_entry > self._limits.index_interval_bytes:
            self._offset_index.append(last_offset, self.size)
            self._time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += len(batch)
        self._gather(batch)

    @property
    def books(self) -> SegmentBooks:
        """State from which the next run of batches continues."""
        return SegmentBooks(
            self.base_offset,
            self._limits.index_interval_bytes,
            self._bytes_since_index_entry,
            self.max_timestamp,
            self.max_timestamp_offset,
        )

    def append_run(self, run: FilteredRun) -> None:
        """Add the kept part of a run of batches that was filtered with `books`, as if each batch had been appended."""
        if run.size == 0:
            return
        if self.first_timestamp is None:
            self.first_timestamp = run.first_timestamp
        for entry in run.entries:
            self._offset_index.append(entry.last_offset, self.size + entry.position)
            self._time_index.maybe_append(entry.max_timestamp, entry.max_timestamp_offset)
        books = run.books
        self.max_timestamp, self.max_timestamp_offset = books.max_timestamp, books.max_timestamp_offset
        self._bytes_since_index_entry = books.bytes_since_index_entry
        for data in run.data:
            self._gather(data)

    def _gather(self, data: bytes | memoryview) -> None:
        self.size += len(data)
        self._pending.append(data)
        self._buffered += len(data)
        if self._buffered >= self._write_bytes:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self._file.pwritev(self._pending, self.size - self._buffered)
            self._pending = []
            self._buffered = 0

    def complete(self, aborted: Iterable[AbortedTransaction], modified_ms: int) -> None:
        """Write pending data and the indexes, and make files and names durable. The files get `modified_ms`, the time of those they
        replace.
        """
        self._write()
        self._time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        transactions = TransactionIndex(self._disk, self.path(TXN_INDEX_SUFFIX), self.base_offset)
        for each in aborted:
            transactions.append(each)
        for index in (self._offset_index, self._time_index):
            index.trim()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.set_modified_ms(self.path(suffix), modified_ms)
        self._file.fsync()
        for index in (self._offset_index, self._time_index):
            index.fsync()
        transactions.fsync()
        self.close()
        self._disk.fsync_dir(self.directory)

    def close(self) -> None:
        self._file.close()
        self._offset_index.close()
        self._time_index.close()

    def remove(self) -> None:
        """Remove the files that exist."""
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            if self._disk.exists(path):
                self._disk.remove(path)
