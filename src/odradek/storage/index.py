"""Sparse indexes of a segment: offset -> position and timestamp -> offset, in Kafka's file formats.

An index has the entries of its file and, in memory, a tail of the entries appended since it was opened. Lookups in the file bisect with
small reads, so that thousands of idle partitions cost no memory. A reader that moves forward hits a cached block. Files hold exactly the
entries. Kafka preallocates its files and trims them on roll and close: trailing zeros left by a crashed JVM are ignored.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right

from odradek.base.disk import Disk, File, out_of_descriptors

_BLOCK_ENTRIES = 512
_WRITE_ENTRIES = 64
"""Entries gathered in memory before they are written. A crash loses them, but recovery rebuilds that index anyway."""


class CorruptIndexError(Exception):
    """Error for a file that is not a valid index: the segment has to be recovered."""


class _IndexFile:
    """Base of both indexes: entries of one fixed size in a file that is opened only when needed."""

    ENTRY_SIZE = 8

    __slots__ = ("_block", "_block_first", "_disk", "_file", "_pending", "base_offset", "file_entries", "max_entries", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.ENTRY_SIZE
        self.file_entries: int = 0
        self._file: File | None = None
        self._pending = bytearray()
        self._block = b""
        self._block_first = 0

    def _open(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path, create=True)
        return file

    def load(self) -> None:
        """Count the entries of an existing file. Raises CorruptIndexError when its size is not a multiple of the entry size."""
        size = self._open().size()
        if size % self.ENTRY_SIZE:
            raise CorruptIndexError(f"{self.path}: {size} bytes are not a multiple of {self.ENTRY_SIZE}")
        count = size // self.ENTRY_SIZE
        zero = bytes(self.ENTRY_SIZE)
        if count and self._read(count - 1, 1) == zero:
            count = bisect_left(range(count), True, key=lambda index: self._read(index, 1) == zero)
        self.file_entries = count

    def _read(self, first: int, count: int) -> bytes:
        return self._open().pread(count * self.ENTRY_SIZE, first * self.ENTRY_SIZE)

    def _entry_bytes(self, index: int) -> bytes:
        """Return the entry in the file at `index`, through the cached block."""
        first = self._block_first
        size = self.ENTRY_SIZE
        if not first <= index < first + len(self._block) // size:
            return self._read(index, 1)
        start = (index - first) * size
        return self._block[start : start + size]

    def _load_block(self, first: int) -> None:
        self._block_first = first
        self._block = self._read(first, min(_BLOCK_ENTRIES, self.file_entries - first))

    @property
    def has_pending(self) -> bool:
        """Return whether memory holds entries that the file does not hold yet."""
        return bool(self._pending)

    def write_pending(self) -> None:
        """Write the entries gathered in memory to the file."""
        if self._pending:
            pending = bytes(self._pending)
            self._open().pwritev([pending], (self.file_entries + self._tail_length()) * self.ENTRY_SIZE - len(pending))
            self._pending.clear()

    def _write_many(self) -> None:
        """Call `write_pending`; without a free descriptor the entries stay in memory until the next append tries again."""
        try:
            self.write_pending()
        except OSError as error:
            if not out_of_descriptors(error):
                raise

    def _tail_length(self) -> int:
        raise NotImplementedError

    def trim(self) -> None:
        """Write pending entries and truncate the file to exactly its entries."""
        self.write_pending()
        file = self._open()
        length = (self.file_entries + self._tail_length()) * self.ENTRY_SIZE
        if file.size() != length:
            file.truncate(length)

    def fsync(self) -> None:
        self.write_pending()
        self._open().fsync()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
        self._block = b""

    def _cut_file(self, entries: int) -> None:
        self._pending.clear()
        self._block = b""
        self.file_entries = entries
        self._open().truncate(entries * self.ENTRY_SIZE)


class OffsetIndex(_IndexFile):
    """Index of (int32 offset relative to the base, int32 position); the offset is the last one of the batch at that position."""

    ENTRY_SIZE = 8

    __slots__ = ("_tail_offsets", "_tail_positions", "last_offset")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes)
        self._tail_offsets = array("q")
        self._tail_positions = array("q")
        self.last_offset = base_offset

    def _tail_length(self) -> int:
        return len(self._tail_offsets)

    @property
    def entries(self) -> int:
        return self.file_entries + len(self._tail_offsets)

    @property
    def is_full(self) -> bool:
        return self.file_entries + len(self._tail_offsets) >= self.max_entries

    def load(self) -> None:
        super().load()
        if self.file_entries:
            relative, _ = _OFFSET_ENTRY.unpack(self._read(self.file_entries - 1, 1))
            self.last_offset = self.base_offset + relative
            if relative < 0:
                raise CorruptIndexError(f"{self.path}: the last entry is below the base offset")

    def append(self, offset: int, position: int) -> None:
        self._tail_offsets.append(offset)
        self._tail_positions.append(position)
        self.last_offset = offset
        pending = self._pending
        pending += _OFFSET_ENTRY.pack(offset - self.base_offset, position)
        if len(pending) >= _WRITE_ENTRIES * 8:
            self._write_many()

    def extend(self, entries: bytes) -> None:
        """Append one or more entries in file format, in rising order."""
        base = self.base_offset
        numbers = struct.unpack(f">{len(entries) // 4}i", entries)
        self._tail_offsets.extend([base + relative for relative in numbers[::2]])
        self._tail_positions.extend(numbers[1::2])
        self.last_offset = self._tail_offsets[-1]
        self._pending.extend(entries)
        if len(self._pending) >= _WRITE_ENTRIES * 8:
            self._write_many()

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry (offset, position) at or below `offset`; (base offset, 0) without one."""
        tail = self._tail_offsets
        if tail and offset >= tail[0]:
            slot = bisect_right(tail, offset) - 1
            return tail[slot], self._tail_positions[slot]
        slot = self._bisect_file(offset - self.base_offset)
        if slot < 0:
            return self.base_offset, 0
        relative, position = _OFFSET_ENTRY.unpack(self._entry_bytes(slot))
        return self.base_offset + relative, position

    def _bisect_file(self, relative: int) -> int:
        """Return the index of the last entry in the file whose relative offset is <= `relative`, or -1."""
        low, high = 0, self.file_entries
        if self._block:
            count = len(self._block) // 8
            first_relative = int.from_bytes(self._block[:4], "big")
            last_relative = int.from_bytes(self._block[-8:-4], "big")
            if first_relative <= relative <= last_relative:
                low, high = self._block_first, self._block_first + count
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if int.from_bytes(self._read(middle, 1)[:4], "big") <= relative:
                low = middle
            else:
                high = middle
        if high > low and not (self._block and self._block_first <= low and high <= self._block_first + len(self._block) // 8):
            self._load_block(low)
        while low < high:  # not `bisect`: its key function makes the lookup of every fetch an eighth slower
            middle = (low + high) // 2
            if int.from_bytes(self._entry_bytes(middle)[:4], "big") <= relative:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def entry(self, index: int) -> tuple[int, int]:
        if index >= self.file_entries:
            return self._tail_offsets[index - self.file_entries], self._tail_positions[index - self.file_entries]
        relative, position = _OFFSET_ENTRY.unpack(self._entry_bytes(index))
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Remove every entry at or above `offset`."""
        self.write_pending()
        keep = self._bisect_file(offset - 1 - self.base_offset) + 1
        tail = self._tail_offsets
        if tail and offset > tail[0]:
            keep_tail = bisect_right(tail, offset - 1)
            del tail[keep_tail:], self._tail_positions[keep_tail:]
            self._open().truncate((self.file_entries + keep_tail) * 8)
        else:
            self.reset_tail()
            self._cut_file(keep)
        count = self.entries
        self.last_offset = self.entry(count - 1)[0] if count else self.base_offset

    def reset_tail(self) -> None:
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    def reset(self) -> None:
        """Empty the index and its file."""
        self.reset_tail()
        self._cut_file(0)
        self.last_offset = self.base_offset

    def drop_memory(self) -> None:
        """Write the tail and drop it from memory, as an inactive segment does."""
        self.write_pending()
        self.file_entries += len(self._tail_offsets)
        self.reset_tail()
        self._block = b""


class TimeIndex(_IndexFile):
    """Index of (int64 timestamp, int32 relative offset): no record up to that offset has a larger timestamp."""

    ENTRY_SIZE = 12

    __slots__ = ("_tail_offsets", "_tail_timestamps", "last_offset", "last_timestamp")

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(disk, path, base_offset, max_bytes)
        self._tail_timestamps = array("q")
        self._tail_offsets = array("q")
        self.last_timestamp = -1
        self.last_offset = base_offset

    def _tail_length(self) -> int:
        return len(self._tail_timestamps)

    @property
    def entries(self) -> int:
        return self.file_entries + len(self._tail_timestamps)

    @property
    def is_full(self) -> bool:
        # One slot stays free for the entry that is written when the segment closes.
        return self.file_entries + len(self._tail_timestamps) >= self.max_entries - 1

    def load(self) -> None:
        super().load()
        if self.file_entries:
            self.last_timestamp, self.last_offset = self.entry(self.file_entries - 1)
            if self.last_timestamp < self.entry(0)[0] or self.last_offset < self.base_offset:
                raise CorruptIndexError(f"{self.path}: the last entry is smaller than the first")

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Append the entry if its timestamp is larger than the last entry's."""
        if timestamp <= self.last_timestamp:
            return
        self._tail_timestamps.append(timestamp)
        self._tail_offsets.append(offset)
        self.last_timestamp = timestamp
        self.last_offset = offset
        pending = self._pending
        pending += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
        if len(pending) >= _WRITE_ENTRIES * 12:
            self._write_many()

    def extend(self, entries: bytes) -> None:
        """Append one or more entries in file format, each with a larger timestamp than the one before."""
        base = self.base_offset
        for timestamp, relative in _TIME_ENTRY.iter_unpack(entries):
            self._tail_timestamps.append(timestamp)
            self._tail_offsets.append(base + relative)
        self.last_timestamp, self.last_offset = self._tail_timestamps[-1], self._tail_offsets[-1]
        self._pending.extend(entries)
        if len(self._pending) >= _WRITE_ENTRIES * 12:
            self._write_many()

    def entry(self, index: int) -> tuple[int, int]:
        if index >= self.file_entries:
            return self._tail_timestamps[index - self.file_entries], self._tail_offsets[index - self.file_entries]
        timestamp, relative = _TIME_ENTRY.unpack(self._entry_bytes(index))
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry (timestamp, offset) at or below `timestamp`; (-1, base offset) without one."""
        after = bisect_right(range(self.entries), timestamp, key=lambda index: self.entry(index)[0])
        return self.entry(after - 1) if after else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove every entry whose offset is at or above `offset`."""
        self.drop_memory()
        left = bisect_left(range(self.file_entries), offset, key=lambda index: self.entry(index)[1])
        self._cut_file(left)
        self.last_timestamp, self.last_offset = self.entry(left - 1) if left else (-1, self.base_offset)

    def reset(self) -> None:
        self._tail_timestamps = array("q")
        self._tail_offsets = array("q")
        self._cut_file(0)
        self.last_timestamp = -1
        self.last_offset = self.base_offset

    def drop_memory(self) -> None:
        self.write_pending()
        self.file_entries += len(self._tail_timestamps)
        self._tail_timestamps = array("q")
        self._tail_offsets = array("q")
        self._block = b""


_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
