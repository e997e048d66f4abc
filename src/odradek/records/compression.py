"""Compressions of record batches, framed as Kafka's Java clients frame them, with bounded decompression.

- gzip: RFC 1952, several members in a row are read as one.
- snappy: the framing of snappy-java ("xerial"); a bare snappy block, as librdkafka sends it, is read too.
- lz4: LZ4 frames with independent blocks of 64 KiB (the JVM refuses linked blocks). Messages of magic 0 and 1 carry Kafka's old
  frame checksum (KAFKA-3160), see `fix_legacy_lz4_header`.
- zstd: RFC 8878.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.block

from odradek.base.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """Compression codec: the lowest three bits of a batch's attributes (org.apache.kafka.common.record.CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LIMIT = 256 * 1024 * 1024
"""Limit of a batch's uncompressed bytes when the caller sets none."""

RATIO_LIMIT = 1024
"""Factor by which a batch may grow above RATIO_FLOOR bytes; one that grows more is refused as a decompression bomb."""

RATIO_FLOOR = 32 * 1024 * 1024

LEVELS: dict[Compression, tuple[int, int, int]] = {
    Compression.GZIP: (1, 9, 6),
    Compression.LZ4: (1, 17, 9),
    Compression.ZSTD: (-131072, 22, 3),
}
"""(lowest, highest, default) level in Kafka's configurations; gzip also takes -1 for its default."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024

_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Version 1, independent blocks of at most 64 KiB, no checksums, no content size; the last byte is the header's own checksum."""
_LZ4_BLOCK = 64 * 1024
_LZ4_ROOM = 16
"""Limit of the output buffer of a frame's blocks, as a multiple of the frame's size; beyond it the general decoder is used."""
_LZ4_HIGHEST = 12
_LZ4_STORED = 1 << 31
"""Bit in a block's size that marks the block as not compressed."""


def compress(data: Buffer, compression: Compression, level: int | None = None) -> bytes:
    """Compress the records part of a batch. `level` None is Kafka's default; snappy and none have no level.

    Raises ValueError for a level outside Kafka's range.
    """
    if compression == Compression.NONE:
        return bytes(data)
    if compression == Compression.SNAPPY:
        return _compress_xerial(data)
    lowest, highest, default = LEVELS[compression]
    if level is None or (compression == Compression.GZIP and level == -1):
        level = default
    elif not lowest <= level <= highest:
        raise ValueError(f"{compression.name.lower()} level {level} is not within [{lowest}, {highest}]")
    if compression == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if compression == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    return _compress_lz4(data, level)


def decompress(data: Buffer, compression: Compression, limit: int = DEFAULT_LIMIT) -> bytes | bytearray | memoryview:
    """Decompress the records part of a batch into at most `limit` bytes. Never allocates more than about twice the output.

    Raises KafkaError: MESSAGE_TOO_LARGE when the output exceeds `limit` bytes, INVALID_RECORD when the data is malformed or grows by more
    than RATIO_LIMIT beyond RATIO_FLOOR.
    """
    if compression == Compression.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return data
    if len(data) == 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"A batch compressed with {compression.name.lower()} has no bytes")
    if compression == Compression.SNAPPY:
        return _decompress_snappy(data, limit)
    if compression == Compression.GZIP:
        return _into(cramjam.gzip.decompress_into, data, compression, limit)
    if compression == Compression.LZ4:
        output = _decompress_lz4(data, limit)
        return _into(cramjam.lz4.decompress_into, data, compression, limit) if output is None else output
    return _into(cramjam.zstd.decompress_into, data, compression, limit)


def _into(codec: Callable[[Buffer, bytearray], int], data: Buffer, compression: Compression, limit: int) -> memoryview:
    """Decompress into a buffer that grows fourfold until it is large enough or reaches the limit."""
    ceiling = min(limit, max(RATIO_FLOOR, len(data) * RATIO_LIMIT))
    size = min(max(len(data) * 6, 16 * 1024), ceiling)
    while True:
        output = bytearray(size)
        try:
            written = codec(data, output)
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise _undecodable(compression, error) from None
            if size >= ceiling:
                raise _over_ceiling(ceiling, limit) from None
            size = min(size * 4, ceiling)
        else:
            return memoryview(output)[:written]


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """Return a frame of independent blocks of 64 KiB without checksums, as the JVM writes it: the batch has a CRC already.

    Kafka's default level uses the fast compressor, any other level the one of high compression (Lz4BlockOutputStream). The highest
    effective level is 12 (LZ4HC_CLEVEL_MAX).
    """
    view = memoryview(data)
    parts: list[bytes | memoryview] = [_LZ4_HEADER]
    fast = level == LEVELS[Compression.LZ4][2]
    for start in range(0, len(view), _LZ4_BLOCK):
        raw = view[start : start + _LZ4_BLOCK]
        if fast:
            block = lz4.block.compress(raw, store_size=False)
        else:
            block = lz4.block.compress(raw, mode="high_compression", compression=min(level, _LZ4_HIGHEST), store_size=False)
        if len(block) < len(raw):
            parts.append(len(block).to_bytes(4, "little"))
            parts.append(block)
        else:
            parts.append((len(raw) | _LZ4_STORED).to_bytes(4, "little"))
            parts.append(raw)
    parts.append(bytes(4))
    return b"".join(parts)


def _decompress_lz4(data: Buffer, limit: int) -> memoryview | None:
    """Decompress a frame in the format of `_compress_lz4`, the JVM and librdkafka, block by block: ten times as fast as the general
    decoder.

    Returns None for any other frame, for a frame that might need much more memory than usual, and on every error: the general decoder then
    names the error.
    """
    view = memoryview(data)
    end = len(view)
    if bytes(view[:7]) != _LZ4_HEADER:
        return None
    blocks: list[tuple[int, int]] = []
    position = 7
    room = 0
    while end - position >= 4:
        size = int.from_bytes(view[position : position + 4], "little")
        position += 4
        if size == 0:
            break
        blocks.append((position, size))
        size &= ~_LZ4_STORED
        position += size
        # One compressed byte expands to at most 255 bytes.
        room += min(size * 255, _LZ4_BLOCK)
    else:
        return None
    if position != end or room > limit or room > max(_LZ4_BLOCK, end * _LZ4_ROOM):
        return None
    output = memoryview(bytearray(room))
    written = 0
    for position, size in blocks:
        target = output[written : written + _LZ4_BLOCK]
        if size & _LZ4_STORED:
            size &= ~_LZ4_STORED
            if size > len(target):
                return None
            target[:size] = view[position : position + size]
            written += size
        else:
            try:
                written += cramjam.lz4.decompress_block_into(view[position : position + size], target)
            except cramjam.DecompressionError:
                return None
    return output[:written]


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytearray:
    view = memoryview(data)
    ceiling = min(limit, max(RATIO_FLOOR, len(data) * RATIO_LIMIT))
    blocks = _xerial_blocks(view) if bytes(view[:8]) == _XERIAL_MAGIC else [view]
    output = bytearray()
    for block in blocks:
        try:
            size = cramjam.snappy.decompress_raw_len(block)
            if len(output) + size > ceiling:
                raise _over_ceiling(ceiling, limit)
            # A snappy block of n bytes holds at most 64 bytes for every 3: a larger declared size is wrong.
            if size > len(block) * 22 + 64:
                raise KafkaError(ErrorCode.INVALID_RECORD, "A snappy block declares more bytes than it can hold")
            output += bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise _undecodable(Compression.SNAPPY, error) from None
    return output


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    """Return the snappy blocks of one or several concatenated xerial streams."""
    cut_off = KafkaError(ErrorCode.INVALID_RECORD, "The snappy framing of the batch is truncated")
    blocks: list[memoryview] = []
    position = 0
    end = len(view)
    while position < end:
        if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > end:
                raise cut_off
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if position > end or size > end - position:
            raise cut_off
        blocks.append(view[position : position + size])
        position += size
    return blocks


def _undecodable(compression: Compression, error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"The batch does not decompress as {compression.name.lower()}: {error}")


def _over_ceiling(ceiling: int, limit: int) -> KafkaError:
    if ceiling == limit:
        return _too_large(limit)
    return KafkaError(ErrorCode.INVALID_RECORD, f"The batch grows by more than {RATIO_LIMIT} times when decompressed")


def _too_large(limit: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"The batch holds more than {limit} bytes uncompressed")


def fix_legacy_lz4_header(data: Buffer) -> bytes:
    """Return an LZ4 frame of magic 0 with the header checksum of the LZ4 specification.

    Kafka's first LZ4 writers also hashed the frame's magic number (KAFKA-3160). Readers of such messages ignore the checksum, so this
    function computes it from the header. Data other than an LZ4 frame is returned unchanged.
    """
    frame = bytearray(data)
    if len(frame) < 7 or bytes(frame[:4]) != b"\x04\x22\x4d\x18":
        return bytes(frame)
    end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    if end < len(frame):
        frame[end] = _xxh32(bytes(frame[4:end])) >> 8 & 0xFF
    return bytes(frame)


def _xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes, the maximum of a frame header."""
    value = (0x165667B1 + len(data)) & 0xFFFFFFFF
    at = 0
    while at + 4 <= len(data):
        value = (value + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D) & 0xFFFFFFFF
        value = ((value << 17 | value >> 15) & 0xFFFFFFFF) * 0x27D4EB2F & 0xFFFFFFFF
        at += 4
    for byte in data[at:]:
        value = (value + byte * 0x165667B1) & 0xFFFFFFFF
        value = ((value << 11 | value >> 21) & 0xFFFFFFFF) * 0x9E3779B1 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return value ^ value >> 16
