"""Arrow columns of records: measuring and filling. See `_frames` for how this source is run."""

from __future__ import annotations

from odradek.records import _frames, _raw
from odradek.records._frames import WALK_MALFORMED, WALK_OK, WALK_TRAILING

_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1
_MAX_MICROSECONDS_AS_MS = 0x7FFFFFFFFFFFFFFF // 1000
_MIN_MICROSECONDS_AS_MS = -(0x7FFFFFFFFFFFFFFF // 1000)


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    byte = len("C")
    byte += 255
    return byte == 0


def measure(
    view: memoryview, position: int, end: int, count: int, base_offset: int, min_offset: int, max_offset: int, with_headers: bool
) -> tuple[int, int, int, int, int, int, int]:
    """Return the size that the records with offsets in [min_offset, max_offset) need as columns.

    The result is WALK_*, rows, bytes of keys, bytes of values, headers, bytes of header keys, bytes of header values.
    """
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED, 0, 0, 0, 0, 0, 0
    data = _raw.octets(view)
    rows = 0
    key_bytes = 0
    value_bytes = 0
    headers = 0
    header_key_bytes = 0
    header_value_bytes = 0
    index = 0
    while index < count:
        position, _, offset_delta, _, key_size, _, value_size, headers_at, header_count = _frames.parse(data, position, end)
        if position < 0:
            return WALK_MALFORMED, rows, 0, 0, 0, 0, 0
        index += 1
        offset = base_offset + offset_delta
        if offset < min_offset or offset >= max_offset:
            continue
        rows += 1
        if key_size > 0:
            key_bytes += key_size
        if value_size > 0:
            value_bytes += value_size
        if with_headers:
            headers += header_count
            while header_count > 0:
                size, headers_at = _frames.varint(data, headers_at, position)
                header_key_bytes += size
                size, headers_at = _frames.varint(data, headers_at + size, position)
                if size > 0:
                    header_value_bytes += size
                    headers_at += size
                header_count -= 1
    if position != end:
        return WALK_TRAILING, rows, 0, 0, 0, 0, 0
    return WALK_OK, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes


def _microseconds(timestamp: int) -> int:
    """Return a timestamp (ms, wrapped to 64 bits) in microseconds, or the largest or smallest that fits into 64 bits."""
    if timestamp > _MAX64 or timestamp < _MIN64:
        timestamp = _frames.wrap64(timestamp)
    if timestamp > _MAX_MICROSECONDS_AS_MS:
        timestamp = _MAX_MICROSECONDS_AS_MS
    elif timestamp < _MIN_MICROSECONDS_AS_MS:
        timestamp = _MIN_MICROSECONDS_AS_MS
    return timestamp * 1000


class Columns:
    """Arrow buffers of a record batch, filled from record bytes. Sizes come from `measure`; records beyond them are refused, never written.

    `rows`, `key_nulls`, `value_nulls`, `header_nulls` and `headers` count the content. `buffers` are: key validity, offsets, data; value
    validity, offsets, data; offset; timestamp (us); timestamp type; then with headers: list offsets, key offsets, key data, value validity,
    value offsets, value data.
    """

    def __init__(
        self, rows: int, key_bytes: int, value_bytes: int, with_headers: bool, headers: int, header_key_bytes: int, header_value_bytes: int
    ) -> None:
        self.rows = 0
        self.key_nulls = 0
        self.value_nulls = 0
        self.headers = 0
        self.header_nulls = 0
        self._key_at = 0
        self._value_at = 0
        self._header_key_at = 0
        self._header_value_at = 0
        self._with_headers = with_headers
        if not with_headers:
            headers = 0
            header_key_bytes = 0
            header_value_bytes = 0
        self._capacity = rows
        self._header_capacity = headers
        bits = (rows + 7) >> 3
        ends = (rows + 1) * 4
        list_ends = ends if with_headers else 4
        header_ends = (headers + 1) * 4
        self.buffers = [
            bytearray(bits),
            bytearray(ends),
            bytearray(key_bytes),
            bytearray(bits),
            bytearray(ends),
            bytearray(value_bytes),
            bytearray(rows * 8),
            bytearray(rows * 8),
            bytearray(rows * 4),
            bytearray(list_ends),
            bytearray(header_ends),
            bytearray(header_key_bytes),
            bytearray((headers + 7) >> 3),
            bytearray(header_ends),
            bytearray(header_value_bytes),
        ]
        self._key_validity = memoryview(self.buffers[0])
        self._key_ends = memoryview(self.buffers[1]).cast("i")
        self._keys = memoryview(self.buffers[2])
        self._value_validity = memoryview(self.buffers[3])
        self._value_ends = memoryview(self.buffers[4]).cast("i")
        self._values = memoryview(self.buffers[5])
        self._offsets = memoryview(self.buffers[6]).cast("q")
        self._timestamps = memoryview(self.buffers[7]).cast("q")
        self._types = memoryview(self.buffers[8]).cast("i")
        self._list_ends = memoryview(self.buffers[9]).cast("i")
        self._header_key_ends = memoryview(self.buffers[10]).cast("i")
        self._header_keys = memoryview(self.buffers[11])
        self._header_validity = memoryview(self.buffers[12])
        self._header_value_ends = memoryview(self.buffers[13]).cast("i")
        self._header_values = memoryview(self.buffers[14])

    def fill(
        self,
        view: memoryview,
        position: int,
        end: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        log_append_time: bool,
        min_offset: int,
        max_offset: int,
    ) -> int:
        """Add the records with offsets in [min_offset, max_offset); return WALK_*.

        With `log_append_time`, `base_timestamp` (ms) is the timestamp of every record.
        """
        if position < 0 or end > len(view) or position > end:
            return WALK_MALFORMED
        data = _raw.octets(view)
        offsets = self._offsets
        timestamps = self._timestamps
        types = self._types
        keys = self._keys
        values = self._values
        key_ends = self._key_ends
        value_ends = self._value_ends
        key_validity = self._key_validity
        value_validity = self._value_validity
        row, key_at, value_at = self.rows, self._key_at, self._value_at
        kind = 1 if log_append_time else 0
        index = 0
        while index < count:
            position, delta, offset_delta, key_start, key_size, value_start, value_size, headers_at, header_count = _frames.parse(
                data, position, end
            )
            if position < 0:
                return WALK_MALFORMED
            index += 1
            offset = base_offset + offset_delta
            if offset < min_offset or offset >= max_offset:
                continue
            if row >= self._capacity or key_size > len(keys) - key_at or value_size > len(values) - value_at:
                return WALK_MALFORMED
            offsets[row] = offset
            timestamps[row] = _microseconds(base_timestamp if log_append_time else base_timestamp + delta)
            types[row] = kind
            if key_size < 0:
                self.key_nulls += 1
            else:
                key_validity[row >> 3] |= 1 << (row & 7)
                if key_size > 0:
                    _raw.copy(_raw.room(keys), key_at, data, key_start, key_size)
                    key_at += key_size
            key_ends[row + 1] = key_at
            if value_size < 0:
                self.value_nulls += 1
            else:
                value_validity[row >> 3] |= 1 << (row & 7)
                if value_size > 0:
                    _raw.copy(_raw.room(values), value_at, data, value_start, value_size)
                    value_at += value_size
            value_ends[row + 1] = value_at
            row += 1
            if self._with_headers and self._fill_headers(data, headers_at, position, header_count, row):
                return WALK_MALFORMED
        self.rows, self._key_at, self._value_at = row, key_at, value_at
        return WALK_OK if position == end else WALK_TRAILING

    def _fill_headers(self, data: memoryview, position: int, end: int, count: int, row: int) -> int:
        """Add the headers of one record. Return 0, or WALK_MALFORMED when they exceed the measured sizes."""
        if count > self._header_capacity - self.headers:
            return WALK_MALFORMED
        ends = self._header_key_ends
        value_ends = self._header_value_ends
        validity = self._header_validity
        at = self.headers
        while count > 0:
            size, position = _frames.varint(data, position, end)
            if size > len(self._header_keys) - self._header_key_at:
                return WALK_MALFORMED
            _raw.copy(_raw.room(self._header_keys), self._header_key_at, data, position, size)
            self._header_key_at += size
            ends[at + 1] = self._header_key_at
            size, position = _frames.varint(data, position + size, end)
            if size > len(self._header_values) - self._header_value_at:
                return WALK_MALFORMED
            if size < 0:
                self.header_nulls += 1
            else:
                validity[at >> 3] |= 1 << (at & 7)
                _raw.copy(_raw.room(self._header_values), self._header_value_at, data, position, size)
                self._header_value_at += size
                position += size
            value_ends[at + 1] = self._header_value_at
            at += 1
            count -= 1
        self.headers = at
        self._list_ends[row] = at
        return 0
