"""Wire format of Confluent's serializers: the schema that wrote a value, and for Protobuf the message.

    0x00, id (4 bytes, big-endian) [message indexes] value       in front of the value
    0x01, GUID (16 bytes) [message indexes]                      in the header `__key_schema_id` or `__value_schema_id`, or in front

Message indexes lead from the file to a message: the index of a top-level message, of a message nested in it, and so on. The indexes are
zigzag varints, after a varint with their number. A single 0 stands for [0].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.client.schemas.errors import WireFormatError
from odradek.protocol.errors import ProtocolError
from odradek.protocol.varint import decode_varint, encode_varint

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
PREFIX_SIZE: Final = 5
MAX_INDEXES: Final = 100
"""Maximum depth of nested messages; Protobuf itself reads no deeper."""
_GUID_SIZE: Final = 17
_LAST_ID: Final = 0xFFFFFFFF
_MAX_INDEX: Final = 0x7FFFFFFF

SchemaKey = int | UUID
"""Key of a schema: its id in one registry, or its GUID, which is the same in all registries."""


class Framed(NamedTuple):
    """Key of a schema, and the position after it."""

    schema: SchemaKey
    end: int


class Indexed(NamedTuple):
    """Message indexes, and the position after them."""

    indexes: tuple[int, ...]
    end: int


def header_name(part: str) -> str:
    """Return the name of the header that may name the schema of `part` (key or value)."""
    return KEY_HEADER if part == "key" else VALUE_HEADER


def read_prefix(data: bytes) -> Framed:
    """Return the schema's key at the start of `data`. Raises WireFormatError, which describes the actual bytes."""
    magic = data[0] if data else -1
    if magic == 0 and len(data) >= PREFIX_SIZE:
        return Framed(int.from_bytes(data[1:PREFIX_SIZE], "big"), PREFIX_SIZE)
    if magic == 1 and len(data) >= _GUID_SIZE:
        return Framed(UUID(bytes=bytes(data[1:_GUID_SIZE])), _GUID_SIZE)
    raise _unframed(data)


def write_prefix(schema: SchemaKey, indexes: Sequence[int] | None = None) -> bytes:
    """Return the prefix that `read_prefix` reads, with `indexes` for a Protobuf message. Raises ValueError for an id beyond 32 bits."""
    if isinstance(schema, UUID):
        start = b"\x01" + schema.bytes
    elif 0 <= schema <= _LAST_ID:
        start = b"\x00" + schema.to_bytes(4, "big")
    else:
        raise ValueError(f"{schema} is not the id of a schema, which has 32 bits")
    return start if indexes is None else start + write_indexes(indexes)


def read_indexes(data: bytes, start: int) -> Indexed:
    """Return the message indexes at `start`. Raises WireFormatError."""
    count, position = _read_varint(data, start)
    if count == 0:
        return Indexed((0,), position)
    if not 0 < count <= MAX_INDEXES:
        raise WireFormatError(f"the message has {count} message indexes, the limit is {MAX_INDEXES}: {shown(data)}")
    indexes: list[int] = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        if not 0 <= index <= _MAX_INDEX:
            raise WireFormatError(f"{index} is not a valid message index: {shown(data)}")
        indexes.append(index)
    return Indexed(tuple(indexes), position)


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Return the bytes that `read_indexes` reads; the short form for [0]. Raises ValueError for no, too many or negative indexes."""
    if not 0 < len(indexes) <= MAX_INDEXES or min(indexes) < 0 or max(indexes) > _MAX_INDEX:
        raise ValueError(f"the message indexes {list(indexes)} do not name a message")
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(encode_varint, (len(indexes), *indexes)))


def shown(data: bytes) -> str:
    """Return a description of bytes for error messages: their number and the first of them."""
    if not data:
        return "there are no bytes"
    start = bytes(data[:16])
    text = start.decode("ascii", "replace")
    begins = f"{text!r}" if text.isprintable() and text.isascii() else start.hex(" ")
    return f"{len(data)} byte{'s' if len(data) > 1 else ''}, {begins}{'...' if len(data) > len(start) else ''}"


def _unframed(data: bytes) -> WireFormatError:
    if data[:1] in (b"\x00", b"\x01"):
        needed, what = (PREFIX_SIZE, "id") if data[:1] == b"\x00" else (_GUID_SIZE, "GUID")
        return WireFormatError(f"too short for the {what} of a schema, which needs {needed} bytes: {shown(data)}")
    if not data:
        return WireFormatError("the value does not name a schema: it is empty")
    looks = ""
    if data[:1] in b'{["':
        looks = "; this looks like plain JSON"
    elif data[:4] == b"Obj\x01":
        looks = "; this looks like an Avro file"
    elif data[:16].isascii() and bytes(data[:16]).decode().isprintable():
        looks = "; this looks like text"
    return WireFormatError(f"the value does not name a schema: the first byte is {data[0]} instead of 0: {shown(data)}{looks}")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    try:
        return decode_varint(data, position)
    except IndexError:
        raise WireFormatError(f"the message indexes are truncated: {shown(data)}") from None
    except ProtocolError:
        raise WireFormatError(f"a message index has more than 32 bits: {shown(data)}") from None
