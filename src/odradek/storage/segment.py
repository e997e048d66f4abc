"""Segment of a log: the `.log` file with its offset, time and transaction indexes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import NamedTuple

from odradek.base.disk import Disk, File, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import HEADER_SIZE
from odradek.records.scan import Scan, index_entries
from odradek.storage.batch_walk import (
    MAX_RELATIVE_OFFSET,
    SCAN_BYTES,
    BatchPosition,
    begins_batch,
    is_largest,
    read_largest_timestamp,
    walk,
)
from odradek.storage.index import CorruptIndexError, OffsetIndex, TimeIndex
from odradek.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from odradek.storage.slices import Pin
from odradek.storage.txn_index import TransactionIndex

logger = logging.getLogger(__name__)


class SegmentLimits(NamedTuple):
    """Part of the topic's configuration that a segment keeps."""

    index_interval_bytes: int
    segment_index_bytes: int


class Segment:
    """Segment of a log. Appends go to the end. Offsets are absolute, positions are bytes in the `.log` file.

    Errors: OSError from the disk, KafkaError CORRUPT_MESSAGE when a batch header in the file is invalid.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_index_full",
        "_indexes_trusted",
        "_limits",
        "_offset_index",
        "_time_index",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "directory_entry_durable",
        "first_batch_timestamp",
        "is_preallocated",
        "max_timestamp",
        "max_timestamp_known",
        "max_timestamp_offset",
        "pin",
        "roll_jitter_ms",
        "size",
        "txn_index",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, limits: SegmentLimits, created_ms: int) -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self._limits = limits
        self._index_full = False
        self._indexes_trusted = True
        """True if this process has made the indexes from the batches."""
        self._file: File | None = None
        self.size = 0
        self.created_ms = created_ms
        self.first_batch_timestamp: int | None = None
        """Max timestamp of the first append, from which segment.ms is measured; None while unknown or empty."""
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.max_timestamp_known = True
        self.bytes_since_index_entry: int = 0
        self.roll_jitter_ms = 0
        self.directory_entry_durable = False
        self.is_preallocated = False
        """True if the file may be longer than `size`: zeros follow until `trim`."""
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.txn_index = TransactionIndex(disk, f"{directory}/{segment_file(base_offset, TXN_INDEX_SUFFIX)}", base_offset)
        self.pin = Pin(self._close_file)

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, limits: SegmentLimits, created_ms: int, *, preallocate: int = 0
    ) -> Segment:
        """Create an empty segment; existing files of the same name are emptied. `preallocate` is the initial size of the file in bytes."""
        segment = cls(disk, directory, base_offset, limits, created_ms)
        file = disk.open(segment.log_path, create=True)
        if file.size():
            file.truncate(0)
            # After a power cut old batches must not come back behind the new ones.
            file.fsync()
        if preallocate:
            file.truncate(preallocate)
            segment.is_preallocated = True
        segment._file = file
        try:
            segment.reset_indexes()
        except OSError as error:
            segment.close_handles()
            if out_of_descriptors(error):
                # The log continues with the segment before: an empty segment that stays would be its end after a restart.
                for suffix in SEGMENT_SUFFIXES:
                    path = f"{directory}/{segment_file(base_offset, suffix)}"
                    if disk.exists(path):
                        disk.remove(path)
            raise
        return segment

    @classmethod
    def load(cls, disk: Disk, directory: str, base_offset: int, limits: SegmentLimits, created_ms: int) -> Segment:
        """Open an existing segment. Its indexes and its maximum timestamp are read when they are first needed."""
        segment = cls(disk, directory, base_offset, limits, created_ms)
        segment.size = segment.file.size()
        segment.max_timestamp_known = False
        segment._indexes_trusted = False
        segment.directory_entry_durable = True
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.directory}, base_offset={self.base_offset}, size={self.size})"

    @property
    def log_path(self) -> str:
        return f"{self.directory}/{segment_file(self.base_offset, LOG_SUFFIX)}"

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.log_path)
        return file

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
            assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
            assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        """Open both indexes; rebuild an invalid one from the log, whose batches are not changed."""
        offsets, times = self._attach_indexes()
        try:
            try:
                offsets.load()
                times.load()
            except OSError:
                # Otherwise the index that was not read would count as empty from now on.
                self._offset_index = self._time_index = None
                raise
            if offsets.file_entries and offsets.entry(offsets.file_entries - 1)[1] >= self.size:
                raise CorruptIndexError(f"{offsets.path}: an entry points beyond the end of the segment")
        except CorruptIndexError as error:
            logger.warning("Rebuilding an index: %s", error)
            self.rebuild_indexes()
        self._index_full = offsets.is_full or times.is_full

    def _attach_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        base, limit = self.base_offset, self._limits.segment_index_bytes
        self._offset_index = OffsetIndex(self._disk, f"{self.directory}/{segment_file(base, INDEX_SUFFIX)}", base, limit)
        self._time_index = TimeIndex(self._disk, f"{self.directory}/{segment_file(base, TIME_INDEX_SUFFIX)}", base, limit)
        return self._offset_index, self._time_index

    def rebuild_indexes(self) -> None:
        """Rebuild offset index and time index from the headers of the batches, as far as they can be read. The log is not changed."""
        size = self.size
        if self._offset_index is None or self._time_index is None:
            self._attach_indexes()
        offsets, times = self.offset_index, self.time_index
        self._indexes_trusted = True
        offsets.reset()
        times.reset()
        self.bytes_since_index_entry = 0
        self.max_timestamp, self.max_timestamp_offset, self.max_timestamp_known = -1, self.base_offset, True
        try:
            for batch in walk(self, 0, size, 1 << 16):
                self.note_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        except KafkaError as error:
            # A reader of the damaged batch gets the error; the batches before it stay readable.
            logger.error("The index ends early: %s", error)
        self.size = size
        times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        offsets.trim()
        times.trim()

    # -- appending ---------------------------------------------------------------------------------------------------------------

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Record a batch written at `position`: timestamps and, every index.interval.bytes, an entry in each index."""
        if position == 0:
            self.first_batch_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > self._limits.index_interval_bytes and self._indexes_open():
            index = self._offset_index or self.offset_index
            index.append(last_offset, position)
            times = self._time_index or self.time_index
            if self.max_timestamp > times.last_timestamp:
                times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index_entry = 0
            self._index_full = index.is_full or times.is_full
        self.bytes_since_index_entry += size
        self.size = position + size

    def _indexes_open(self) -> bool:
        """Return whether entries can be added to the indexes. Without a free descriptor the next batch gets the entry."""
        if self._offset_index is None or self._time_index is None:
            try:
                self._load_indexes()
            except OSError as error:
                if not out_of_descriptors(error):
                    raise
                return False
        return True

    def note_batches(self, scan: Scan, count: int, begin: int) -> None:
        """Record the first `count` batches of a scan as `note_batch` does; its positions count from `begin`."""
        if count == 1:
            self.note_batch(begin + scan.positions[0], scan.sizes[0], scan.last_offsets[0], scan.max_timestamps[0])
            return
        if begin + scan.positions[0] == 0:
            self.first_batch_timestamp = scan.max_timestamps[0]
        entries = index_entries(
            scan,
            count,
            begin=begin,
            base_offset=self.base_offset,
            interval=self._limits.index_interval_bytes,
            max_timestamp=self.max_timestamp,
            max_timestamp_offset=self.max_timestamp_offset,
            bytes_since_entry=self.bytes_since_index_entry,
            last_time=self.time_index.last_timestamp,
        )
        self.max_timestamp, self.max_timestamp_offset = entries.max_timestamp, entries.max_timestamp_offset
        self.bytes_since_index_entry = entries.bytes_since_entry
        if entries.offsets:
            self.offset_index.extend(entries.offsets)
            if entries.times:
                self.time_index.extend(entries.times)
            self._index_full = self.is_index_full
        self.size = max(self.size, begin + scan.positions[count - 1] + scan.sizes[count - 1])

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int, segment_bytes: int, segment_ms: int) -> bool:
        """Return whether `size` more bytes up to `last_offset` require a new segment (LogSegment.shouldRoll)."""
        own_size = self.size
        if own_size > segment_bytes - size or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if own_size:
            first = self.first_batch_timestamp
            waited = max_timestamp - first if first is not None and first >= 0 else self.time_waited_for_roll(now_ms, max_timestamp)
            if waited > segment_ms - self.roll_jitter_ms:
                return True
        return self._index_full

    def time_waited_for_roll(self, now_ms: int, timestamp: int) -> int:
        """Return the milliseconds since the first batch by record time, or since the creation when records have no timestamp."""
        first = self.first_batch_timestamp
        if first is None and self.size:
            first = self.first_batch_timestamp = self.batch_at(0).max_timestamp
        if first is not None and first >= 0:
            return timestamp - first
        return now_ms - self.created_ms

    def become_inactive(self) -> None:
        """Complete the indexes, trim all files and drop the indexes' entries from memory."""
        self.trim()
        self.ensure_max_timestamp()
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        for index in (self.offset_index, self.time_index):
            index.trim()
            index.drop_memory()
            index.close()

    def trim(self) -> None:
        """Free the preallocated space that was not used."""
        if self.is_preallocated:
            self.file.truncate(self.size)
            self.is_preallocated = False

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def scan(self, position: int = 0, end: int | None = None, *, read_ahead: int = SCAN_BYTES) -> Iterator[BatchPosition]:
        """Yield the batches from `position` (a batch boundary) to `end`, headers only; `read_ahead` bytes are read at a time."""
        return walk(self, position, self.size if end is None else end, read_ahead)

    def position_before(self, offset: int) -> int:
        """Return a batch boundary at or before the batch that holds `offset` (or follows it), from the offset index.

        An index found on disk is checked: a batch must begin at the entry's position, with a base offset at or below the entry's offset. A
        wrong index is rebuilt at once.
        """
        found, position = self.offset_index.lookup(offset)
        if self._indexes_trusted or position == 0 or begins_batch(self, position, found):
            return position
        self._distrust(f"{self.offset_index.path}: no batch of offset {found} begins at {position}")
        return self.offset_index.lookup(offset)[1]

    def offset_before(self, timestamp: int) -> int:
        """Return an offset below which no record is as late as `timestamp`, from the time index, checked as in `position_before`."""
        found, offset = self.time_index.lookup(timestamp)
        if self._indexes_trusted or found < 0 or is_largest(self, found, offset):
            return offset
        self._distrust(f"{self.time_index.path}: no batch with the largest timestamp {found} contains offset {offset}")
        return self.time_index.lookup(timestamp)[1]

    def _distrust(self, why: str) -> None:
        logger.warning("Rebuilding an index that does not fit its log: %s", why)
        self.rebuild_indexes()

    def find(self, offset: int, start_position: int | None = None) -> BatchPosition | None:
        """Return the first batch whose last offset is >= `offset`, None when the segment ends before it."""
        position = self.position_before(offset) if start_position is None else start_position
        for batch in walk(self, position, self.size, SCAN_BYTES):
            if batch.last_offset >= offset:
                return batch
        return None

    def batch_at(self, position: int) -> BatchPosition:
        """Return the batch that begins at `position`. Raises KafkaError CORRUPT_MESSAGE without a batch."""
        for batch in walk(self, position, self.size, HEADER_SIZE):
            return batch
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.log_path}: no batch at position {position}")

    def ensure_max_timestamp(self) -> None:
        """Read the largest timestamp of a loaded segment (LogSegment.readLargestTimestamp)."""
        if not self.max_timestamp_known:
            self.max_timestamp, self.max_timestamp_offset = read_largest_timestamp(self)
            self.max_timestamp_known = True

    def largest_timestamp(self) -> int:
        """Return the largest record timestamp (ms); the file's modification time (ms) when no record has one.

        A file that was closed before is closed again.
        """
        if not self.max_timestamp_known:
            closed = self._file is None
            self.ensure_max_timestamp()
            if closed:
                self.rest()
        return self.max_timestamp if self.max_timestamp >= 0 else self._disk.modified_ms(self.log_path)

    def open_as(self, path: str) -> None:
        """Read the log from another file name: a `.swap` file before it is renamed."""
        self._file = self._disk.open(path, readonly=True)
        self.size = self._file.size()

    def sanity_check(self, present: Collection[str]) -> None:
        """Raise CorruptIndexError when the offset index is missing in `present`, or when the transaction index is invalid.

        `present` are the names in the directory. The segment must be recovered after an error. The other indexes are checked when they are
        needed.
        """
        if segment_file(self.base_offset, INDEX_SUFFIX) not in present:
            raise CorruptIndexError(f"{self.log_path}: its offset index is missing")
        if segment_file(self.base_offset, TIME_INDEX_SUFFIX) not in present:
            times = self._attach_indexes()[1]
            times.reset()
            times.close()
            self._offset_index = self._time_index = None
        if segment_file(self.base_offset, TXN_INDEX_SUFFIX) in present:
            self.txn_index.entries()
        else:
            self.txn_index.assume_empty()

    # -- changes -----------------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Truncate at the batch that contains `offset` (or the next one). Return the new log end: `offset`, or the base of that batch.

        Nothing may be written in place of the truncated bytes before the file has been fsynced.
        """
        batch = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if batch is not None:
            self.file.truncate(batch.position)
            self.is_preallocated = False
            self.size = batch.position
        if self.size == 0:
            self.created_ms = now_ms
            self.first_batch_timestamp = None
        self.bytes_since_index_entry = 0
        self._index_full = self.is_index_full
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self.max_timestamp_known = False
        self.ensure_max_timestamp()
        return offset if batch is None else min(offset, batch.base_offset)

    def index_paths(self) -> list[str]:
        """Return the existing index files, after writing pending entries; a flush fsyncs them besides the log."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.write_pending()
        paths = [f"{self.directory}/{segment_file(self.base_offset, suffix)}" for suffix in SEGMENT_SUFFIXES[1:]]
        return [path for path in paths if self._disk.exists(path)]

    @property
    def is_index_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    def reset_indexes(self) -> None:
        """Empty all three indexes, whatever their files hold."""
        if self._offset_index is None or self._time_index is None:
            self._attach_indexes()
        self._indexes_trusted = True
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._index_full = False

    def update_limits(self, limits: SegmentLimits) -> None:
        """Set index.interval.bytes and segment.index.bytes."""
        if limits == self._limits:
            return
        self._limits = limits
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.max_entries = limits.segment_index_bytes // index.ENTRY_SIZE
        if self._offset_index is not None:
            self._index_full = self.is_index_full

    def rest(self) -> None:
        """Close all descriptors until they are needed again, except that of a file with readers.

        Indexes whose entries are all in their files are dropped from memory.
        """
        offsets, times = self._offset_index, self._time_index
        if offsets is not None and times is not None:
            offsets.close()
            times.close()
            if not offsets.has_pending and not times.has_pending:
                self._offset_index = self._time_index = None
        if self.pin.readers == 0:
            self._close_file()

    def close_handles(self) -> None:
        """Close the files without writing anything, for a directory that failed or is being deleted."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()
        self.pin.retire()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted` and return the new paths; the caller removes them later."""
        self.close_handles()
        renamed: list[str] = []
        for suffix in SEGMENT_SUFFIXES:
            path = f"{self.directory}/{segment_file(self.base_offset, suffix)}"
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def update_directory(self, directory: str) -> None:
        """Record the new path of the directory; open descriptors stay valid."""
        self.directory = directory
        for index, suffix in ((self._offset_index, INDEX_SUFFIX), (self._time_index, TIME_INDEX_SUFFIX)):
            if index is not None:
                index.path = f"{directory}/{segment_file(self.base_offset, suffix)}"
        self.txn_index.path = f"{directory}/{segment_file(self.base_offset, TXN_INDEX_SUFFIX)}"
