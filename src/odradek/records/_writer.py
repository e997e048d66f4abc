"""Record builder for single records and for rows of Arrow columns. See `_frames` for how this source is run."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.records import _checksum, _frames, _raw, layout

Headers = Sequence[tuple[str, bytes | None]]

_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1
_MASK64 = 0xFFFFFFFFFFFFFFFF

MAX_RECORD_BODY = 0x7FFFFFFF

_HEADER = layout.HEADER_SIZE
_LENGTH_ENDS = 12
_CRC_ENDS = 21

_checksum.prepare()


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    byte = len("C")
    byte += 255
    return byte == 0


def zigzag(value: int) -> int:
    return ((value << 1) ^ (value >> 63)) & _MASK64


def varint_size(value: int) -> int:
    """Return the size of an unsigned varint in bytes."""
    size = 1
    while value > 127:
        value >>= 7
        size += 1
    return size


def put_varint(room: memoryview, position: int, value: int) -> int:
    """Write an unsigned varint; return the position after it."""
    while value > 127:
        room[position] = (value & 0x7F) | 0x80
        value >>= 7
        position += 1
    room[position] = value
    return position + 1


def _put_bytes(room: memoryview, position: int, source: bytes) -> int:
    """Write the bytes; return the position after them."""
    size = len(source)
    octets = source
    if size > 0:
        _raw.copy(room, position, octets, 0, size)
    return position + size


def _varint_bytes(value: int) -> bytes:
    """Return the bytes of a zigzag varint."""
    buffer = bytearray(10)
    view = memoryview(buffer)
    return bytes(buffer[: put_varint(_raw.room(view), 0, zigzag(value))])


def _encode_headers(headers: Headers) -> bytes:
    """Return header count and headers in a record's format."""
    output = bytearray()
    output += _varint_bytes(len(headers))
    for name, value in headers:
        key = name.encode("utf-8")
        output += _varint_bytes(len(key))
        output += key
        if value is None:
            output.append(1)
        else:
            octets = bytes(memoryview(value))
            output += _varint_bytes(len(octets))
            output += octets
    return bytes(output)


def encode_record(timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Return one record without headers in a batch's format, for the few records that a RecordWriter does not write."""
    body = bytearray(1)
    body += _varint_bytes(timestamp_delta)
    body += _varint_bytes(offset_delta)
    for part in (key, value):
        body += _varint_bytes(-1 if part is None else len(part))
        body += part or b""
    body.append(0)
    return _varint_bytes(len(body)) + bytes(body)


class RecordWriter:
    """Writer of records behind space for a batch header, into a buffer that grows up to `limit` bytes (header included).

    `buffer` is the initial buffer; without it a small one is allocated. The first record is always accepted, so that a record larger than
    the limit gets a batch for itself. Attributes for reading: `count`, `base_timestamp` (of the first record), `max_timestamp`, `position`
    (bytes written so far).
    """

    def __init__(self, limit: int, reserve: int, buffer: bytearray | None = None) -> None:
        self.limit = limit
        self.reserve = reserve
        self.position = reserve
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        if buffer is None or len(buffer) < reserve + 64:
            size = limit
            if size > 16384:
                size = 16384
            if size < reserve + 64:
                size = reserve + 64
            buffer = bytearray(size)
        self._buffer = buffer
        self._view = memoryview(buffer)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> bool:
        """Write one record; return False when it does not fit any more. Timestamps are milliseconds.

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
        room = _raw.room(self._view)
        position = put_varint(room, position, zigzag(key_size))
        if key_size > 0:
            position = _put_bytes(room, position, key_octets)
        position = put_varint(room, position, zigzag(value_size))
        if value_size > 0:
            position = _put_bytes(room, position, value_octets)
        self.position = _put_bytes(room, position, encoded_headers)
        return True

    def append_all(self, timestamp: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> bool:
        """Append each key and value, without headers. Return False at the first that does not fit; the ones before it are written."""
        # Not all(): compiled, all() would still go through a generator.
        for key, value in records:  # noqa: SIM110
            if not self.append(timestamp, key, value):
                return False
        return True

    def append_records(self, records: Sequence[tuple[int, bytes | None, bytes | None, Headers]]) -> bool:
        """Append each (timestamp, key, value, headers). Return False at the first that does not fit; the ones before it are written."""
        for timestamp, key, value, headers in records:  # noqa: SIM110
            if not self.append(timestamp, key, value, headers):
                return False
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
        """Write rows of Arrow columns, from `row` on, until a row does not fit; return the first row not written.

        Offsets are int32 views that begin at row 0; None means a column of nulls (offsets) or without nulls (validity). `bit_offsets` are
        the positions of row 0 in the two validity bitmaps. The caller has validated the arrays.
        """
        key_bit, value_bit = bit_offsets
        key_data = _raw.octets(keys)
        value_data = _raw.octets(values)
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
            room = _raw.room(self._view)
            position = put_varint(room, position, zigzag(key_size))
            if key_size > 0:
                _raw.copy(room, position, key_data, key_at, key_size)
                position += key_size
            position = put_varint(room, position, zigzag(value_size))
            if value_size > 0:
                _raw.copy(room, position, value_data, value_at, value_size)
                position += value_size
            room[position] = 0
            self.position = position + 1
            row += 1
        return row

    def _begin(self, timestamp: int, key_size: int, value_size: int, headers_size: int) -> int:
        """Reserve space for a record; write body size, attributes and deltas. Return the position after them, -1 if the batch is full."""
        base_timestamp = timestamp if self.count == 0 else self.base_timestamp
        difference = timestamp - base_timestamp
        if difference > _MAX64 or difference < _MIN64:
            difference = _frames.wrap64(difference)
        delta = zigzag(difference)
        offset_delta = zigzag(self.count)
        body = 1 + varint_size(delta) + varint_size(offset_delta) + varint_size(zigzag(key_size)) + varint_size(zigzag(value_size))
        body += headers_size
        if key_size > 0:
            body += key_size
        if value_size > 0:
            body += value_size
        if body > MAX_RECORD_BODY:
            raise OverflowError("A record must be smaller than 2 GiB")
        need = self.position + body + varint_size(zigzag(body))
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
        room = _raw.room(self._view)
        position = put_varint(room, self.position, zigzag(body))
        room[position] = 0
        position = put_varint(room, position + 1, delta)
        return put_varint(room, position, offset_delta)

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

    def seal(
        self, base_offset: int, leader_epoch: int, attributes: int, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> bytes:
        """Return the records with their header as a whole batch. `attributes` must not name a compression.

        Raises ValueError when the reserved space does not have the size of a header.
        """
        self._put_header(base_offset, leader_epoch, attributes, producer_id, producer_epoch, base_sequence)
        return bytes(_raw.room(self._view)[0 : self.position])

    def seal_in_place(
        self, base_offset: int, leader_epoch: int, attributes: int, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> memoryview:
        """Return the batch as `seal` does, but as a part of the buffer without a copy; the writer must not be used afterwards."""
        self._put_header(base_offset, leader_epoch, attributes, producer_id, producer_epoch, base_sequence)
        return self.body()

    def body(self) -> memoryview:
        """Return header space and records; the writer must not be used afterwards."""
        return memoryview(self._buffer)[: self.position]

    def _put_header(
        self, base_offset: int, leader_epoch: int, attributes: int, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None:
        if self.reserve != _HEADER:
            raise ValueError(f"{self.reserve} bytes are too few for a header")
        end = self.position
        count = self.count
        last = count - 1 if count > 0 else 0
        room = _raw.room(self._view)
        _raw.put64(room, 0, base_offset)
        _raw.put32(room, 8, end - _LENGTH_ENDS)
        _raw.put32(room, 12, leader_epoch)
        room[16] = 2
        room[21] = attributes >> 8 & 0xFF
        room[22] = attributes & 0xFF
        _raw.put32(room, 23, last)
        _raw.put64(room, 27, self.base_timestamp)
        _raw.put64(room, 35, self.max_timestamp)
        _raw.put64(room, 43, producer_id)
        room[51] = producer_epoch >> 8 & 0xFF
        room[52] = producer_epoch & 0xFF
        _raw.put32(room, 53, base_sequence)
        _raw.put32(room, 57, count)
        octets = _raw.octets(self._view)
        _raw.put32(room, 17, _checksum.checksum(octets, _CRC_ENDS, end - _CRC_ENDS))
