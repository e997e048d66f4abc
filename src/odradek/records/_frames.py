"""Reading of the records of a batch (magic 2): varints, the frame of a record, and the loops that walk and decode.

This source is run in two ways, as are all modules of `native.COMPILED`: interpreted, and compiled by Cython with the C types that the .pxd
declares for the same names. It is therefore written for both. Integers that would exceed 64 bits are wrapped explicitly (`wrap64`). Every
index is proven to lie below `end` before it is used, because the compiled code does not check. No function depends on an exception raised
by an index. `_raw` turns buffers into pointers.

A record (org.apache.kafka.common.record.DefaultRecord), all sizes zigzag varints: body size, attributes (1 byte), timestamp delta, offset
delta, key size (-1 is null), key, value size, value, header count, then for each header key size, key, value size, value.
"""

from __future__ import annotations

from typing import Any

from odradek.records import _raw

WALK_OK = 0
WALK_MALFORMED = 1
"""Status of a record whose sizes, varints or headers do not fit into its body, or that ends after the end of the batch."""
WALK_TRAILING = 2
"""Status of a batch with bytes after the last record that the header counts."""

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1
_NO_HEADERS: tuple[()] = ()


def probe() -> bool:
    """Return whether this module is compiled: `byte` is then an unsigned char, which overflows; interpreted it is an unbounded integer."""
    byte = len("C")
    byte += 255
    return byte == 0


def is_compiled() -> bool:
    """Return the result of `probe`, for callers in Python."""
    return probe()


def wrap64(value: int) -> int:
    """Return `value` in two's complement, as Java's long arithmetic. Never reached in the compiled module, where the sum has wrapped."""
    value &= _MASK64
    if value > _MAX64:
        value = value - _MASK64 - 1
    return value


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint of at most 5 bytes and the position after it; position -1 when none ends before `end`."""
    if position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 35:
        position += 1
        if position >= end:
            return 0, -1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Only four bits of the fifth byte count; Java drops the others too.
            value &= _MASK32
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    return 0, -1


def _varlong(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint of at most 10 bytes and the position after it, as `_varint` does."""
    if position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 63:
        position += 1
        if position >= end:
            return 0, -1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    position += 1
    if position >= end:
        return 0, -1
    byte = data[position]
    if byte >= 0x80:
        return 0, -1
    value |= (byte & 1) << 63
    return (value >> 1) ^ -(value & 1), position + 1


def _parse(data: memoryview, position: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Read the frame of the record at `position`, which must lie within `end`. Checks every size and nothing more.

    Returns the position after the record, timestamp delta, offset delta, start and size of the key and of the value (size -1: null), start
    of the first header and number of headers. The position is -1 when the record is malformed.
    """
    body, position = _varint(data, position, end)
    if position < 0 or body < 0 or body > end - position:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    end = position + body
    timestamp_delta, position = _varlong(data, position + 1, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    offset_delta, position = _varint(data, position, end)
    if position < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key_size, key_at = _varint(data, position, end)
    if key_at < 0 or key_size > end - key_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    if key_size < 0:
        key_size = -1
    position = key_at + key_size if key_size > 0 else key_at
    value_size, value_at = _varint(data, position, end)
    if value_at < 0 or value_size > end - value_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    if value_size < 0:
        value_size = -1
    position = value_at + value_size if value_size > 0 else value_at
    header_count, headers_at = _varint(data, position, end)
    if headers_at < 0 or header_count < 0 or header_count > end - headers_at:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    position = headers_at
    if header_count > 0:
        position = _skip_headers(data, position, end, header_count)
    if position != end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    return end, timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count


# For the other modules, which call through pointers; in this module the functions above are inlined.


def varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the result of `_varint`."""
    return _varint(data, position, end)


def varlong(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the result of `_varlong`."""
    return _varlong(data, position, end)


def parse(data: memoryview, position: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Return the result of `_parse`."""
    return _parse(data, position, end)


def _skip_headers(data: memoryview, position: int, end: int, count: int) -> int:
    """Return the position after `count` headers, -1 when they are malformed."""
    index = 0
    while index < count:
        size, position = _varint(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        size, position = _varint(data, position + size, end)
        if position < 0 or size > end - position:
            return -1
        if size > 0:
            position += size
        index += 1
    return position


def walk(view: memoryview, position: int, end: int, count: int, base_timestamp: int) -> tuple[int, int, int, int, bool, int]:
    """Walk the frames of the `count` records that must fill `view[position:end]` exactly.

    Returns: WALK_*; the number of valid records; the largest timestamp (at least -1); the smallest timestamp other than -1 (2**63 - 1
    without one); whether the offset deltas are 0, 1, 2, ...; the number of records without a key.
    """
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED, 0, -1, _MAX64, False, 0
    data = _raw.octets(view)
    max_timestamp = -1
    min_timestamp = _MAX64
    in_order = True
    null_keys = 0
    index = 0
    while index < count:
        position, delta, offset_delta, _, key_size, _, _, _, _ = _parse(data, position, end)
        if position < 0:
            return WALK_MALFORMED, index, max_timestamp, min_timestamp, in_order, null_keys
        timestamp = base_timestamp + delta
        if timestamp > _MAX64 or timestamp < _MIN64:
            timestamp = wrap64(timestamp)
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
    """Return (offset delta, timestamp, has a key) of each record, for the slow path that names the invalid records."""
    view = memoryview(source)
    output: list[tuple[int, int, bool]] = []
    if position < 0 or end > len(view) or position > end:
        return output
    data = _raw.octets(view)
    index = 0
    while index < count:
        position, delta, offset_delta, _, key_size, _, _, _, _ = _parse(data, position, end)
        if position < 0:
            break
        timestamp = base_timestamp + delta
        if timestamp > _MAX64 or timestamp < _MIN64:
            timestamp = wrap64(timestamp)
        output.append((offset_delta, timestamp, key_size >= 0))
        index += 1
    return output


def _read_headers(source: bytes, data: memoryview, position: int, end: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a record that `_parse` has found well-formed. As in Java, invalid UTF-8 in a key becomes U+FFFD."""
    octets = source
    output: list[tuple[str, bytes | None]] = []
    index = 0
    while index < count:
        size, position = _varint(data, position, end)
        key = octets[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = _varint(data, position, end)
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
    place: tuple[object, object, object] | None = None,
    least: int = _MIN64,
) -> int:
    """Append the `count` records in `source[position:end]` with offsets from `least` on to `output`, as `record_class`.

    `record_class` is a NamedTuple of offset, timestamp, key, value and headers. With `place` (topic, partition, type of timestamps) it is a
    NamedTuple of topic, partition, offset, timestamp, type of timestamp, key, value and headers. `append_timestamp` replaces the timestamp
    of every record unless it is None. Returns WALK_*; the records before a malformed one have been appended.
    """
    view = memoryview(source)
    data = _raw.octets(view)
    octets = source
    if position < 0 or end > len(view) or position > end:
        return WALK_MALFORMED
    fixed = append_timestamp is not None
    if append_timestamp is not None:
        base_timestamp = append_timestamp
    topic = partition = kind = None
    if place is not None:
        topic, partition, kind = place
    index = 0
    while index < count:
        position, delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count = _parse(data, position, end)
        if position < 0:
            return WALK_MALFORMED
        timestamp = base_timestamp
        if not fixed:
            timestamp = base_timestamp + delta
            if timestamp > _MAX64 or timestamp < _MIN64:
                timestamp = wrap64(timestamp)
        offset = base_offset + offset_delta
        if offset > _MAX64 or offset < _MIN64:
            offset = wrap64(offset)
        index += 1
        if offset < least:
            continue
        key = None if key_size < 0 else octets[key_at : key_at + key_size]
        value = None if value_size < 0 else octets[value_at : value_at + value_size]
        headers = _NO_HEADERS if header_count == 0 else _read_headers(source, data, headers_at, position, header_count)
        if place is None:
            output.append(_raw.record(record_class, offset, timestamp, key, value, headers))
        else:
            output.append(_raw.placed_record(record_class, topic, partition, offset, timestamp, kind, key, value, headers))
    return WALK_OK if position == end else WALK_TRAILING
