"""The loops that run once per record: walking, reading and writing the records of a batch (magic 2), and Arrow columns.

One source, run in two ways: as it stands, and compiled by Cython with the C types that `_codec.pxd` declares for the same names.
So it is written for both: integers that would outgrow 64 bits are wrapped explicitly (`_wrap64`), every index is proven to lie below
`end` before it is used (the compiled code does not check), and no function depends on an exception raised by an index.

A record (org.apache.kafka.common.record.DefaultRecord), all sizes zigzag varints:
body size, attributes (1 byte), timestamp delta, offset delta, key size (-1 is null), key, value size, value, header count,
then for each header key size, key, value size, value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For the compiler; the interpreter never comes to where it is used.
    import cython  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

Headers = Sequence[tuple[str, bytes | None]]

WALK_OK = 0
WALK_MALFORMED = 1
"""A record whose sizes, varints or headers do not fit into its body, or that ends behind the end of the batch."""
WALK_TRAILING = 2
"""Bytes are left over behind the last record that the header counts."""

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1
_MAX_MICROSECONDS_AS_MS = 0x7FFFFFFFFFFFFFFF // 1000
_MIN_MICROSECONDS_AS_MS = -(0x7FFFFFFFFFFFFFFF // 1000)
_NO_HEADERS: tuple[()] = ()

MAX_RECORD_BODY = 0x7FFFFFFF


def _probe() -> bool:
    # An unsigned char in the compiled module, an unbounded integer in the source.
    byte = len("C")
    byte += 255
    return byte == 0


def is_compiled() -> bool:
    """Whether this module is the compiled one."""
    return _probe()


def _wrap64(value: int) -> int:
    """Two's complement, as Java's long arithmetic; never reached in the compiled module, where the sum has wrapped already."""
    value &= _MASK64
    if value > _MAX64:
        value = value - _MASK64 - 1
    return value


def _varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    """A zigzag varint of at most 5 bytes and the position behind it; position -1 when there is none before `end`."""
    if position >= end:
        return 0, -1
    byte = view[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 35:
        position += 1
        if position >= end:
            return 0, -1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The fifth byte has four bits that count; Java drops the rest too.
            value &= _MASK32
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    return 0, -1


def _varlong(view: memoryview, position: int, end: int) -> tuple[int, int]:
    """As `_varint`, of at most 10 bytes."""
    if position >= end:
        return 0, -1
    byte = view[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 63:
        position += 1
        if position >= end:
            return 0, -1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    position += 1
    if position >= end:
        return 0, -1
    byte = view[position]
    if byte >= 0x80:
        return 0, -1
    value |= (byte & 1) << 63
    return (value >> 1) ^ -(value & 1), position + 1


def _parse(view: memoryview, position: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Reads the frame of the record at `position`, which must lie within `end`; looks at every size and at nothing else.

    Returns the position behind the record, timestamp delta, offset delta, start and size of the key and of the value (size -1: null),
    start of the first header and number of headers. The first is -1 when the record is malformed.
    """
    body, position = _varint(view, position, end)
    if position < 0 or body < 0 or body > end - position:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    end = position + body
    timestamp_delta, position = _varlong(view, position + 1, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    offset_delta, position = _varint(view, position, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key_size, key_at = _varint(view, position, end)
    if key_at < 0 or key_size > end - key_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    if key_size < 0:
        key_size = -1
    position = key_at + key_size if key_size > 0 else key_at
    value_size, value_at = _varint(view, position, end)
    if value_at < 0 or value_size > end - value_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    if value_size < 0:
        value_size = -1
    position = value_at + value_size if value_size > 0 else value_at
    header_count, headers_at = _varint(view, position, end)
    if headers_at < 0 or header_count < 0 or header_count > end - headers_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    position = headers_at
    if header_count > 0:
        position = _skip_headers(view, position, end, header_count)
    if position != end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count


def _skip_headers(view: memoryview, position: int, end: int, count: int) -> int:
    """The position behind `count` headers, -1 when they are malformed."""
    index = 0
    while index < count:
        size, position = _varint(view, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        size, position = _varint(view, position + size, end)
        if position < 0 or size > end - position:
            return -1
        if size > 0:
            position += size
        index += 1
    return position


def walk(view: memoryview, position: int, end: int, count: int, base_timestamp: int) -> tuple[int, int, int, int, bool, int]:
    """Walks the frames of the `count` records that must fill `view[position:end]` exactly.

    Returns: one of WALK_*; how many records were good; the greatest timestamp (-1 when there is none greater); the least timestamp
    other than -1 (2**63 - 1 when there is none); whether the offset deltas are 0, 1, 2, ...; the number of records without a key.
    """
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED, 0, -1, _MAX64, False, 0
    max_timestamp = -1
    min_timestamp = _MAX64
    in_order = True
    null_keys = 0
    index = 0
    while index < count:
        position, delta, offset_delta, _, key_size, _, _, _, _ = _parse(view, position, end)
        if position < 0:
            return WALK_MALFORMED, index, max_timestamp, min_timestamp, in_order, null_keys
        timestamp = base_timestamp + delta
        if timestamp > _MAX64 or timestamp < _MIN64:
            timestamp = _wrap64(timestamp)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if timestamp < min_timestamp and timestamp != -1:
            min_timestamp = timestamp
        if offset_delta != index:
            in_order = False
        if key_size < 0:
            null_keys += 1
        index += 1
    if position != end:
        return WALK_TRAILING, index, max_timestamp, min_timestamp, in_order, null_keys
    return WALK_OK, index, max_timestamp, min_timestamp, in_order, null_keys


def frames(source: bytes, position: int, end: int, count: int, base_timestamp: int) -> list[tuple[int, int, bool]]:
    """(offset delta, timestamp, has a key) of each record, for the slow path that names the records at fault."""
    view = memoryview(source)
    output: list[tuple[int, int, bool]] = []
    if position < 0 or end > len(view) or position > end:
        return output
    index = 0
    while index < count:
        position, delta, offset_delta, _, key_size, _, _, _, _ = _parse(view, position, end)
        if position < 0:
            break
        timestamp = base_timestamp + delta
        if timestamp > _MAX64 or timestamp < _MIN64:
            timestamp = _wrap64(timestamp)
        output.append((offset_delta, timestamp, key_size >= 0))
        index += 1
    return output


def _read_headers(source: bytes, view: memoryview, position: int, end: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record that `_parse` has found well-formed. A key that is not UTF-8 is read as Java reads it, with U+FFFD."""
    octets = source
    output: list[tuple[str, bytes | None]] = []
    index = 0
    while index < count:
        size, position = _varint(view, position, end)
        key = octets[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = _varint(view, position, end)
        if size < 0:
            output.append((key, None))
        else:
            output.append((key, octets[position : position + size]))
            position += size
        index += 1
    return tuple(output)


def decode(
    source: bytes,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    record_class: type[Any],
    output: list[Any],
) -> int:
    """Appends the `count` records in `source[position:end]` to `output`, as `record_class` (a NamedTuple of five).

    `append_timestamp` replaces the timestamp of every record unless it is None. Returns WALK_*; the records before a malformed one have
    been appended.
    """
    view = memoryview(source)
    octets = source
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED
    fixed = append_timestamp is not None
    if append_timestamp is not None:
        base_timestamp = append_timestamp
    new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    index = 0
    while index < count:
        position, delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count = _parse(view, position, end)
        if position < 0:
            return WALK_MALFORMED
        timestamp = base_timestamp
        if not fixed:
            timestamp = base_timestamp + delta
            if timestamp > _MAX64 or timestamp < _MIN64:
                timestamp = _wrap64(timestamp)
        offset = base_offset + offset_delta
        if offset > _MAX64 or offset < _MIN64:
            offset = _wrap64(offset)
        key = None if key_size < 0 else octets[key_at : key_at + key_size]
        value = None if value_size < 0 else octets[value_at : value_at + value_size]
        headers = _NO_HEADERS if header_count == 0 else _read_headers(source, view, headers_at, position, header_count)
        output.append(new(record_class, (offset, timestamp, key, value, headers)))
        index += 1
    return WALK_OK if position == end else WALK_TRAILING


def _zigzag(value: int) -> int:
    return ((value << 1) ^ (value >> 63)) & _MASK64


def _varint_size(value: int) -> int:
    """Bytes of an unsigned varint."""
    size = 1
    while value > 127:
        value >>= 7
        size += 1
    return size


def _put_varint(view: memoryview, position: int, value: int) -> int:
    """Writes an unsigned varint; returns the position behind it."""
    while value > 127:
        view[position] = (value & 0x7F) | 0x80
        value >>= 7
        position += 1
    view[position] = value
    return position + 1


def _copy(target: memoryview, at: int, source: memoryview, start: int, size: int) -> int:
    """target[at : at + size] = source[start : start + size]; returns 0."""
    if size <= 0:
        return 0
    if _probe():
        # Bare pointers, or the compiler must fear that a byte written changes the buffer descriptors.
        to = cython.address(target[at])
        of = cython.address(source[start])
        for index in range(size):
            to[index] = of[index]
    else:
        target[at : at + size] = source[start : start + size]
    return 0


def _put_bytes(view: memoryview, position: int, source: bytes) -> int:
    """Writes the bytes; returns the position behind them."""
    size = len(source)
    octets = source
    if size == 0:
        return position
    if _probe():
        to = cython.address(view[position])
        for index in range(size):
            to[index] = octets[index]
    else:
        view[position : position + size] = source
    return position + size


def _encode_headers(headers: Headers) -> bytes:
    """Header count and headers as they stand in a record."""
    buffer = bytearray(10)
    output = bytearray()
    output += buffer[: _put_varint(memoryview(buffer), 0, _zigzag(len(headers)))]
    for name, value in headers:
        key = name.encode("utf-8")
        output += buffer[: _put_varint(memoryview(buffer), 0, _zigzag(len(key)))]
        output += key
        if value is None:
            output.append(1)
        else:
            octets = bytes(memoryview(value))
            output += buffer[: _put_varint(memoryview(buffer), 0, _zigzag(len(octets)))]
            output += octets
    return bytes(output)


class RecordWriter:
    """Writes records behind room for a batch header, into a buffer that grows up to `limit` bytes (header included).

    The first record is always taken, so that a record larger than the limit travels alone. Attributes for reading: `count`,
    `base_timestamp` (of the first record), `max_timestamp`, `position` (bytes so far).
    """

    def __init__(self, limit: int, reserve: int) -> None:
        self.limit = limit
        self.reserve = reserve
        self.position = reserve
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        size = limit
        if size > 16384:
            size = 16384
        if size < reserve + 64:
            size = reserve + 64
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Writes one record; False when it does not fit any more. Timestamps are milliseconds.

        Raises TypeError for a key or value that is neither bytes-like nor None, OverflowError for a record of 2 GiB or more.
        """
        key_octets = b""
        value_octets = b""
        encoded_headers = b"\x00"
        key_size = -1
        value_size = -1
        if key is not None:
            key_octets = key if type(key) is bytes else bytes(memoryview(key))
            key_size = len(key_octets)
        if value is not None:
            value_octets = value if type(value) is bytes else bytes(memoryview(value))
            value_size = len(value_octets)
        if headers:
            encoded_headers = _encode_headers(headers)
        position = self._begin(timestamp, key_size, value_size, len(encoded_headers))
        if position < 0:
            return False
        view = self._view
        position = _put_varint(view, position, _zigzag(key_size))
        if key_size > 0:
            position = _put_bytes(view, position, key_octets)
        position = _put_varint(view, position, _zigzag(value_size))
        if value_size > 0:
            position = _put_bytes(view, position, value_octets)
        self.position = _put_bytes(view, position, encoded_headers)
        return True

    def append_rows(
        self,
        row: int,
        rows: int,
        timestamps: memoryview | None,
        default_timestamp: int,
        key_offsets: memoryview | None,
        keys: memoryview,
        key_validity: memoryview | None,
        value_offsets: memoryview | None,
        values: memoryview,
        value_validity: memoryview | None,
        bit_offsets: tuple[int, int],
    ) -> int:
        """Writes rows of Arrow columns, from `row` on, until one does not fit; returns the first row not written.

        Offsets are int32 views that begin at row 0; None stands for a column of nulls (offsets) or without nulls (validity).
        `bit_offsets` are the positions of row 0 in the two validity bitmaps. The caller has validated the arrays.
        """
        key_bit, value_bit = bit_offsets
        while row < rows:
            key_size = -1
            value_size = -1
            key_at = 0
            value_at = 0
            timestamp = default_timestamp
            if timestamps is not None:
                timestamp = timestamps[row]
            bit = row + key_bit
            if key_offsets is not None and (key_validity is None or key_validity[bit >> 3] >> (bit & 7) & 1):
                key_at = key_offsets[row]
                key_size = key_offsets[row + 1] - key_at
            bit = row + value_bit
            if value_offsets is not None and (value_validity is None or value_validity[bit >> 3] >> (bit & 7) & 1):
                value_at = value_offsets[row]
                value_size = value_offsets[row + 1] - value_at
            position = self._begin(timestamp, key_size, value_size, 1)
            if position < 0:
                break
            view = self._view
            position = _put_varint(view, position, _zigzag(key_size))
            if key_size > 0:
                _copy(view, position, keys, key_at, key_size)
                position += key_size
            position = _put_varint(view, position, _zigzag(value_size))
            if value_size > 0:
                _copy(view, position, values, value_at, value_size)
                position += value_size
            view[position] = 0
            self.position = position + 1
            row += 1
        return row

    def _begin(self, timestamp: int, key_size: int, value_size: int, headers_size: int) -> int:
        """Makes room for a record and writes body size, attributes and deltas; the position behind them, -1 when the batch is full."""
        base_timestamp = timestamp if self.count == 0 else self.base_timestamp
        difference = timestamp - base_timestamp
        if difference > _MAX64 or difference < _MIN64:
            difference = _wrap64(difference)
        delta = _zigzag(difference)
        offset_delta = _zigzag(self.count)
        body = 1 + _varint_size(delta) + _varint_size(offset_delta) + _varint_size(_zigzag(key_size)) + _varint_size(_zigzag(value_size))
        body += headers_size
        if key_size > 0:
            body += key_size
        if value_size > 0:
            body += value_size
        if body > MAX_RECORD_BODY:
            raise OverflowError("A record must be smaller than 2 GiB")
        need = self.position + body + _varint_size(_zigzag(body))
        if need > self.limit and self.count > 0:
            return -1
        if need > len(self._buffer):
            self._grow(need)
        if self.count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1
        view = self._view
        position = _put_varint(view, self.position, _zigzag(body))
        view[position] = 0
        position = _put_varint(view, position + 1, delta)
        return _put_varint(view, position, offset_delta)

    def _grow(self, need: int) -> None:
        size = len(self._buffer) * 2
        if size > self.limit:
            size = self.limit
        if size < need:
            size = need
        grown = bytearray(size)
        grown[: self.position] = self._buffer[: self.position]
        self._buffer = grown
        self._view = memoryview(grown)

    def take(self) -> bytearray:
        """Header room and records as one buffer, cut to size; the writer must not be used afterwards."""
        buffer = self._buffer
        self._view = memoryview(bytearray())
        self._buffer = bytearray()
        del buffer[self.position :]
        return buffer


def measure(
    view: memoryview, position: int, end: int, count: int, base_offset: int, min_offset: int, max_offset: int, with_headers: bool
) -> tuple[int, int, int, int, int, int, int]:
    """What the records with offsets in [min_offset, max_offset) need as columns.

    Returns WALK_*, rows, bytes of keys, bytes of values, headers, bytes of header keys, bytes of header values.
    """
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED, 0, 0, 0, 0, 0, 0
    rows = 0
    key_bytes = 0
    value_bytes = 0
    headers = 0
    header_key_bytes = 0
    header_value_bytes = 0
    index = 0
    while index < count:
        position, _, offset_delta, _, key_size, _, value_size, headers_at, header_count = _parse(view, position, end)
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
                size, headers_at = _varint(view, headers_at, position)
                header_key_bytes += size
                size, headers_at = _varint(view, headers_at + size, position)
                if size > 0:
                    header_value_bytes += size
                    headers_at += size
                header_count -= 1
    if position != end:
        return WALK_TRAILING, rows, 0, 0, 0, 0, 0
    return WALK_OK, rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes


class Columns:
    """Arrow buffers of a record batch, filled from record bytes. Sizes come from `measure`; what would not fit is refused, never written.

    `rows`, `key_nulls`, `value_nulls`, `header_nulls`, `headers`: how much stands in them. `buffers`: key validity, offsets, data; value
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
        """Adds the records with offsets in [min_offset, max_offset); returns WALK_*.

        With `log_append_time`, `base_timestamp` is the timestamp of every record. Timestamps that do not fit into microseconds become the
        greatest or least that do.
        """
        if position < 0 or end > len(view) or position > end:
            return WALK_MALFORMED
        offsets = self._offsets
        timestamps = self._timestamps
        types = self._types
        keys = self._keys
        values = self._values
        key_ends = self._key_ends
        value_ends = self._value_ends
        key_validity = self._key_validity
        value_validity = self._value_validity
        row = self.rows
        key_at = self._key_at
        value_at = self._value_at
        kind = 1 if log_append_time else 0
        index = 0
        while index < count:
            position, delta, offset_delta, key_start, key_size, value_start, value_size, headers_at, header_count = _parse(
                view, position, end
            )
            if position < 0:
                return WALK_MALFORMED
            index += 1
            offset = base_offset + offset_delta
            if offset < min_offset or offset >= max_offset:
                continue
            if row >= self._capacity or key_size > len(keys) - key_at or value_size > len(values) - value_at:
                return WALK_MALFORMED
            timestamp = base_timestamp
            if not log_append_time:
                timestamp = base_timestamp + delta
                if timestamp > _MAX64 or timestamp < _MIN64:
                    timestamp = _wrap64(timestamp)
            if timestamp > _MAX_MICROSECONDS_AS_MS:
                timestamp = _MAX_MICROSECONDS_AS_MS
            elif timestamp < _MIN_MICROSECONDS_AS_MS:
                timestamp = _MIN_MICROSECONDS_AS_MS
            offsets[row] = offset
            timestamps[row] = timestamp * 1000
            types[row] = kind
            if key_size < 0:
                self.key_nulls += 1
            else:
                key_validity[row >> 3] |= 1 << (row & 7)
                if key_size > 0:
                    _copy(keys, key_at, view, key_start, key_size)
                    key_at += key_size
            key_ends[row + 1] = key_at
            if value_size < 0:
                self.value_nulls += 1
            else:
                value_validity[row >> 3] |= 1 << (row & 7)
                if value_size > 0:
                    _copy(values, value_at, view, value_start, value_size)
                    value_at += value_size
            value_ends[row + 1] = value_at
            row += 1
            if self._with_headers and self._fill_headers(view, headers_at, position, header_count, row):
                return WALK_MALFORMED
        self.rows = row
        self._key_at = key_at
        self._value_at = value_at
        return WALK_OK if position == end else WALK_TRAILING

    def _fill_headers(self, view: memoryview, position: int, end: int, count: int, row: int) -> int:
        """Adds the headers of one record; 0, or WALK_MALFORMED when they are not those that were measured."""
        if count > self._header_capacity - self.headers:
            return WALK_MALFORMED
        ends = self._header_key_ends
        value_ends = self._header_value_ends
        validity = self._header_validity
        at = self.headers
        while count > 0:
            size, position = _varint(view, position, end)
            if size > len(self._header_keys) - self._header_key_at:
                return WALK_MALFORMED
            _copy(self._header_keys, self._header_key_at, view, position, size)
            self._header_key_at += size
            ends[at + 1] = self._header_key_at
            size, position = _varint(view, position + size, end)
            if size > len(self._header_values) - self._header_value_at:
                return WALK_MALFORMED
            if size < 0:
                self.header_nulls += 1
            else:
                validity[at >> 3] |= 1 << (at & 7)
                _copy(self._header_values, self._header_value_at, view, position, size)
                self._header_value_at += size
                position += size
            value_ends[at + 1] = self._header_value_at
            at += 1
            count -= 1
        self.headers = at
        self._list_ends[row] = at
        return 0
