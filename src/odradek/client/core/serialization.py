"""Kafka's standard serializers and deserializers by name (org.apache.kafka.common.serialization), byte for byte as Java writes them.

None stands for null in both directions; no serializer or deserializer is called for null.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from odradek.base.errors import ConfigError, OdradekError

Serializer = Callable[[Any], Any]
"""Function that makes bytes (or text, sent as UTF-8) of a key or value; not called for None, which is sent as null."""
Deserializer = Callable[[bytes], Any]
"""Function that makes an object of the bytes of a key or value; not called for null, which stays None."""


HeaderList = list[tuple[str, bytes | None]]
"""Headers of a record that is being sent."""


class RecordSerializer(Protocol):
    """Serializer that needs more than the content (Java's Serializer.serialize(topic, headers, data)). Not called for None."""

    def serialize(self, topic: str, part: str, content: Any, headers: HeaderList) -> Any:
        """Return the bytes of a key or value (`part`); `headers` are the record's and may be changed."""
        ...

    def is_ready(self, topic: str, part: str, content: Any) -> bool:
        """Return whether `serialize` would not block. Otherwise it is called outside of the event loop."""
        ...


class RecordDeserializer(Protocol):
    """Deserializer that needs more than the bytes. Not called for null."""

    def deserialize(self, topic: str, part: str, data: bytes, headers: Sequence[tuple[str, bytes | None]]) -> Any:
        """Return the object that the bytes of a key or value (`part`) stand for."""
        ...

    def is_ready(self, part: str, data: bytes, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        """Return whether `deserialize` would not block."""
        ...

    def prepare(self, part: str, data: bytes, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        """Do the blocking part, outside of the event loop. Return False if that failed; the next `deserialize` raises the error."""
        ...


class SerializationError(OdradekError):
    """Key or value that its serializer or deserializer cannot handle (org.apache.kafka.common.errors.SerializationException)."""


class Codec(NamedTuple):
    """Serializer and deserializer of one name; without `read`, bytes are handed out as they are."""

    write: Serializer
    read: Deserializer | None


_NAN: Final = b"\x7f\xf8" + bytes(6)


def _number(form: str) -> Codec:
    packed = struct.Struct(form)

    def write(value: object) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a bool is not a number")
        return packed.pack(value)

    def read(data: bytes) -> Any:
        return packed.unpack(data)[0]

    return Codec(write, read)


def _write_double(value: Any) -> bytes:
    # As Double.doubleToLongBits, which writes every NaN with the same bits.
    return _DOUBLE.write(value) if value == value else _NAN


def _write_bytes(value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"it must be bytes, not {_named(value)}")


def _write_text(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"it must be a str, not {_named(value)}")


def _write_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write_uuid(value: object) -> bytes:
    if isinstance(value, UUID):
        return str(value).encode()
    raise TypeError(f"it must be a uuid.UUID, not {_named(value)}")


def _read_uuid(data: bytes) -> UUID:
    return UUID(data.decode())


def _write_boolean(value: object) -> bytes:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    raise TypeError(f"it must be a bool, not {_named(value)}")


def _read_boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError("a boolean must be one byte, 0 or 1")
    return data == b"\x01"


def _void(_: object) -> Any:
    raise ValueError("it must be null")


def _named(value: object) -> str:
    return type(value).__name__


_DOUBLE: Final = _number(">d")

CODECS: Final[Mapping[str, Codec]] = {
    "bytes": Codec(_write_bytes, None),
    "string": Codec(_write_text, bytes.decode),
    "json": Codec(_write_json, json.loads),
    "short": _number(">h"),
    "integer": _number(">i"),
    "long": _number(">q"),
    "float": _number(">f"),
    "double": Codec(_write_double, _DOUBLE.read),
    "boolean": Codec(_write_boolean, _read_boolean),
    "uuid": Codec(_write_uuid, _read_uuid),
    "void": Codec(_void, _void),
}
"""Codecs by short name. Java has no `json`."""

_JAVA: Final = "org.apache.kafka.common.serialization."
_JAVAS_NAMES: Final = {
    "ByteArray": "bytes",
    "ByteBuffer": "bytes",
    "Bytes": "bytes",
    "UUID": "uuid",
    **{name.title(): name for name in ("string", "short", "integer", "long", "float", "double", "boolean", "void")},
}


def named_codec(key: str, given: object) -> Codec:
    """Return the codec for a short name or the name of Java's class; `key` is the configuration key, such as value.serializer.

    Raises ConfigError for other names.
    """
    kind = key.rpartition(".")[2].title()
    name = str(given)
    if name.startswith(_JAVA) and name.endswith(kind):
        name = _JAVAS_NAMES.get(name.removeprefix(_JAVA).removesuffix(kind), name)
    if name in CODECS:
        return CODECS[name]
    what = "the key or value" if kind == "Serializer" else "bytes"
    raise ConfigError(f"Invalid value {given} for configuration {key}: it must be a function of {what}, or one of {', '.join(CODECS)}")
