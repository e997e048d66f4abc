"""Variable-length integers: unsigned for lengths and tags, zig-zag for signed ones (KIP-482)."""

from __future__ import annotations

from odradek.protocol.errors import ProtocolError


def encode_uvarint(value: int) -> bytes:
    """Return seven bits a byte, lowest first; `value` must not be negative."""
    if value < 128:
        return bytes((value,))
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_uvarint(buffer: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return the value of at most 32 bits at `offset`, and the offset after it.

    Raises IndexError where the buffer ends first, ProtocolError beyond 32 bits.
    """
    value = buffer[offset]
    offset += 1
    if value < 128:
        return value, offset
    return decode_uvarint_rest(buffer, offset, value)


def decode_uvarint_rest(buffer: bytes | memoryview, offset: int, first: int) -> tuple[int, int]:
    """Return value and offset as `decode_uvarint`, for a value whose `first` byte, above 127, precedes `offset`."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[offset]
        offset += 1
        if byte < 128:
            if shift == 28 and byte > 15:
                break
            return value | byte << shift, offset
        value |= (byte & 127) << shift
    raise ProtocolError("a varint is longer than 32 bits")


def encode_varint(value: int) -> bytes:
    """Return the zig-zag encoding of a signed number of at most 64 bits."""
    return encode_uvarint(value << 1 ^ value >> 63)


def decode_varint(buffer: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return the signed value of at most 32 bits at `offset`, and the offset after it. Raises as `decode_uvarint`."""
    value, offset = decode_uvarint(buffer, offset)
    return value >> 1 ^ -(value & 1), offset


def decode_varlong(buffer: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Return the signed value of at most 64 bits at `offset`, and the offset after it.

    Raises IndexError where the buffer ends first, ProtocolError beyond 64 bits.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = buffer[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if shift == 63 and byte > 1:
                break
            return value >> 1 ^ -(value & 1), offset
    raise ProtocolError("a varint is longer than 64 bits")
