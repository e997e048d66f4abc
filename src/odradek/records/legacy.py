"""Messages of magic 0 and 1 (before Kafka 0.11), for reading logs that still hold them. They are never written.

A message: offset (8), size (4), CRC-32 (4), magic (1), attributes (1), timestamp (8, magic 1 only), key and value as int32-sized bytes. A
compressed message holds a message set in its value; in magic 1 the inner offsets count from 0 and the wrapper has the last one's.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records.compression import DEFAULT_LIMIT, Buffer, Compression, decompress, fix_legacy_lz4_header

if TYPE_CHECKING:
    from odradek.records.batch import BatchHeader, Record

_PREFIX = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_OVERHEAD = (14, 22)
_LOG_OVERHEAD = 12
_COMPRESSION_MASK = 0x07
_TIMESTAMP_TYPE_MASK = 0x08


def read_header(buffer: Buffer, offset: int) -> BatchHeader:
    """Return the message at `offset` as a BatchHeader of one record.

    `base_offset` is the offset in the message (of a compressed one: its last). `record_count` is 1 for a plain message and -1 for a
    compressed one, whose count is known only after decompression. Producer and sequence are unset; the leader epoch is -1.

    Raises ProtocolError when the bytes end before the message's header does, KafkaError CORRUPT_MESSAGE for an impossible size.
    """
    from odradek.records.batch import BatchHeader

    if len(buffer) - offset < _PREFIX.size + 8:
        raise ProtocolError("The message is truncated")
    message_offset, size, crc, magic, attributes = _PREFIX.unpack_from(buffer, offset)
    if size < _OVERHEAD[magic]:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record size {size} is less than the minimum record overhead ({_OVERHEAD[magic]})")
    timestamp = int(_TIMESTAMP.unpack_from(buffer, offset + _PREFIX.size)[0]) if magic == 1 else -1
    count = -1 if attributes & _COMPRESSION_MASK else 1
    return BatchHeader(message_offset, size, -1, magic, crc, attributes & 0x0F, 0, timestamp, timestamp, -1, -1, -1, count)


def check_crc(buffer: Buffer, offset: int, header: BatchHeader) -> bool:
    """Return whether the CRC-32 of the message is right; the message must be complete."""
    return zlib.crc32(memoryview(buffer)[offset + 16 : offset + header.batch_length + _LOG_OVERHEAD]) == header.crc


def decode_message(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> list[Record]:
    """Return the record of a message, or the records of a compressed one. Raises KafkaError and ProtocolError as `batch.decode_batch`."""
    return [record for record, _, _, _ in _decode(buffer, position, header, limit)]


def decode_checked(buffer: Buffer, position: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> list[tuple[Record, int, bool]]:
    """Return records as `decode_message` does, each with its message's checksum and whether that checksum is right."""
    return [(record, inner.crc, check_crc(data, at, inner)) for record, data, at, inner in _decode(buffer, position, header, limit)]


def _decode(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> list[tuple[Record, Buffer, int, BatchHeader]]:
    """Return records, each with the buffer, the position there and the header of its message."""
    from odradek.records.batch import Record, read_header

    key, value = _key_and_value(buffer, position, header)
    compression = header.compression
    if compression == Compression.NONE:
        return [(Record(header.base_offset, header.max_timestamp, _copy(key), _copy(value), ()), buffer, position, header)]
    if value is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Found invalid compressed record set with null value")
    if compression == Compression.ZSTD:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Messages of magic {header.magic} cannot use ZStandard")
    payload: Buffer = fix_legacy_lz4_header(value) if compression == Compression.LZ4 and header.magic == 0 else value
    inner = decompress(payload, compression, limit)
    found: list[tuple[Record, Buffer, int, BatchHeader]] = []
    at = 0
    while at < len(inner):
        inner_header = read_header(inner, at)
        if inner_header.magic != header.magic or inner_header.size > len(inner) - at or inner_header.is_compressed:
            raise KafkaError(ErrorCode.INVALID_RECORD, "Found an invalid message inside a compressed message")
        inner_key, inner_value = _key_and_value(inner, at, inner_header)
        timestamp = header.max_timestamp if header.is_log_append_time else inner_header.max_timestamp
        record = Record(inner_header.base_offset, timestamp, _copy(inner_key), _copy(inner_value), ())
        found.append((record, inner, at, inner_header))
        at += inner_header.size
    if not found:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Found invalid compressed record set with no inner records")
    if header.magic == 1:
        shift = header.base_offset - found[-1][0].offset
        found = [(record._replace(offset=record.offset + shift), data, at, each) for record, data, at, each in found]
    return found


def _copy(part: memoryview | None) -> bytes | None:
    return None if part is None else bytes(part)


def _key_and_value(buffer: Buffer, position: int, header: BatchHeader) -> tuple[memoryview | None, memoryview | None]:
    end = position + header.size
    if end > len(buffer):
        raise ProtocolError("The message is truncated")
    view = memoryview(buffer)[:end]
    at = position + _PREFIX.size + (8 if header.magic == 1 else 0)
    key, at = _sized(view, at)
    value, at = _sized(view, at)
    if at != end:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A message is longer than its key and value")
    return key, value


def _sized(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    if len(view) - at < 4:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A message is shorter than its fields")
    size = int(_SIZE.unpack_from(view, at)[0])
    at += 4
    if size < 0:
        return None, at
    if size > len(view) - at:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A message is shorter than its fields")
    return view[at : at + size], at + size
