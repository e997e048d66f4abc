"""Tables of keyed values, filled while many small batches are read. See `_frames` for how this source is run.

The logs that coordinators load hold values by key, mostly many values under keys that differ only in a number at their end.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.records import _frames, _raw, _runs, layout

KEYED_END = _END = 0
KEYED_MORE = _MORE = 1
KEYED_OTHER = _OTHER = 2
KEYED_BATCH = _BATCH = 3
KEYED_MALFORMED = _MALFORMED = 4

_HEADER = layout.HEADER_SIZE
_OFFSET = 8
_LONGEST = 4096
_LEAST_KEY = 6
_MAX_BATCH = 0x7FFFFFFF


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    byte = len("C")
    byte += 255
    return byte == 0


def total_size(records: Sequence[tuple[bytes, bytes | None]]) -> int:
    """Return the bytes of all keys and values."""
    size = 0
    for key, value in records:
        size += len(key)
        if value is not None:
            size += len(value)
    return size


def numbered(records: Sequence[tuple[bytes, bytes]], offset: int) -> dict[int, bytes]:
    """Return records whose keys differ only in their last four bytes, at offsets that count up from `offset`, as a table of `KeyedRun`.

    Of several records with the same number the last one counts. Raises IndexError for a key that is too short.
    """
    table: dict[int, bytes] = {}
    longest = 0
    for key, value in records:
        if len(key) < 4:
            raise IndexError(f"a key of {len(key)} bytes does not contain a number")
        size = len(value)
        if size > longest:
            longest = size
    view = memoryview(bytearray(_OFFSET + longest))
    room = _raw.room(view)
    for key, value in records:
        octets, source = key, value
        size = len(value)
        _raw.put64(room, 0, offset)
        _raw.copy(room, _OFFSET, source, 0, size)
        table[_raw.signed32(octets, len(key) - 4)] = bytes(room[0 : _OFFSET + size])
        offset += 1
    return table


class KeyedRun:
    """Reader of plain batches (see `_runs`) that stores the records for which a table exists.

    A table holds the records whose keys are equal except for the last four bytes. Its keys are the signed number in these bytes, its values
    the record's offset in eight bytes, followed by the record's value.
    """

    def __init__(self, source: bytes, below: int, least: int, highest: int) -> None:
        """Read the batches in `source` whose records all have offsets less than `below`.

        Stored values have at least `least` bytes, and a version (the int16 at their beginning) from 0 to `highest`.
        """
        if least < 2 or not 0 <= highest <= 0xFF:
            raise ValueError(f"No values of {least} bytes in versions to {highest}")
        self._source = source
        self._view = memoryview(source)
        self._room = memoryview(bytearray(_OFFSET + _LONGEST))
        self._below = below
        self._least = least
        self._highest = highest
        self._position = 0
        self._end = len(source)
        self._left = 0
        self._base_offset = 0
        self.batch_end = 0
        self.next_offset = -1
        self.count = 0
        self.offset = -1
        self.key: bytes | None = None
        self.value: bytes | None = None

    def put(self, tables: dict[bytes, dict[int, bytes]], limit: int) -> int:
        """Read until one of the conditions below. Set `count` to the number of records read, `next_offset` to the offset after the last
        batch begun.

        - KEYED_END: all bytes have been read.
        - KEYED_MORE: `limit` records have been read.
        - KEYED_OTHER: the last record read has no table, or must not be stored: it is in `offset`, `key` and `value`.
        - KEYED_BATCH: the batch at `batch_end` is not plain, is incomplete, or not below the offset. `skip` continues after it.
        - KEYED_MALFORMED: the batch has another number of records than its header says, or a malformed record.
        """
        data = _raw.octets(self._view)
        octets = self._source
        room = _raw.room(self._room)
        self.count = 0
        while self.count < limit:
            while self._left == 0:
                if self._position != self.batch_end:
                    return _MALFORMED
                if self._position >= self._end:
                    return _END
                if not self._begin(data):
                    return _BATCH
            position, _, delta, key_at, key_size, value_at, value_size, _, _ = _frames.parse(data, self._position, self.batch_end)
            if position < 0:
                return _MALFORMED
            self._position = position
            self._left -= 1
            self.count += 1
            offset = self._base_offset + delta
            if key_size >= _LEAST_KEY and value_size >= self._least and value_size <= _LONGEST:
                number_at = key_at + key_size - 4
                table = tables.get(octets[key_at:number_at])
                if table is not None and data[value_at] == 0 and data[value_at + 1] <= self._highest:
                    _raw.put64(room, 0, offset)
                    _raw.copy(room, _OFFSET, data, value_at, value_size)
                    table[_raw.signed32(data, number_at)] = bytes(room[0 : _OFFSET + value_size])
                    continue
            self.offset = offset
            self.key = None if key_size < 0 else octets[key_at : key_at + key_size]
            self.value = None if value_size < 0 else octets[value_at : value_at + value_size]
            return _OTHER
        return _MORE

    def _begin(self, data: memoryview) -> bool:
        """Move to the first record of the batch at `batch_end`. Return False when that batch is not plain."""
        position = self.batch_end
        size = _runs.plain(data, position, self._end, _MAX_BATCH)
        if size == 0:
            return False
        count = _raw.signed32(data, position + 57)
        base_offset = _raw.signed64(data, position)
        next_offset = base_offset + _raw.signed32(data, position + 23) + 1
        if count < 0 or next_offset > self._below:
            return False
        self._base_offset = base_offset
        self.next_offset = next_offset
        self._left = count
        self.batch_end = position + size
        # Bytes after the header of a batch without records are ignored, as in Kafka.
        self._position = self.batch_end if count == 0 else position + _HEADER
        return True

    def skip(self, position: int) -> None:
        """Continue with the batch at `position`. Raises ValueError outside the unread bytes."""
        if position < self.batch_end or position > self._end:
            raise ValueError(f"{position} is not between {self.batch_end} and {self._end}")
        self._left = 0
        self._position = position
        self.batch_end = position
