"""Generation of Python source from declarations: the shared parts of the reader and the writer generator, and constructors.

The result is one function without branches on types or versions: nested structs and arrays become nested loops, and neighbouring values of
fixed size (with the length of the following value) become one `struct` call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from odradek.protocol.errors import ProtocolError
from odradek.protocol.schema import Array, Field, Message, Scalar, Struct

MISSING: Final = object()
UUID_CACHE_LIMIT: Final = 4_096
MAX_TAGS: Final = 512
"""Limit of tagged fields in a struct; Kafka's own structs have fewer than 10."""


class Source:
    """Lines of a function being generated and the objects that it refers to."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self.names: dict[str, object] = {}
        self._structs: dict[str, str] = {}
        self._serial = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, value: object, prefix: str = "k") -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def struct_method(self, codes: str, method: str) -> str:
        """Return the name of the bound `pack` or `unpack_from` of a big-endian struct."""
        key = f"{method} {codes}"
        if key not in self._structs:
            self._structs[key] = self.constant(getattr(struct.Struct(">" + codes), method), method + "_")
        return self._structs[key]

    def compile(self, title: str) -> Any:
        """Compile and return the function `f`."""
        namespace = dict(self.names)
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), namespace)
        return namespace["f"]


def build_constructor(cls: type[Struct]) -> Callable[..., None]:
    """Return a keyword-only `__init__` with the declared defaults; each instance gets a new list or struct."""
    parameters: list[str] = []
    source = Source("")
    source.names["MISSING"] = MISSING
    for item in cls.FIELDS:
        value = item.name
        if isinstance(item.type, Scalar) or item.default_is_none:
            parameters.append(f"{item.name}={literal(source, item)}")
        else:
            parameters.append(f"{item.name}=MISSING")
            value = f"{empty(source, cls, item)} if {item.name} is MISSING else {item.name}"
        source.add(f"self.{item.name} = {value}")
    source.lines[0] = f"def f(self{', *, ' if parameters else ''}{', '.join(parameters)}):"
    source.add("pass")
    constructor: Callable[..., None] = source.compile(f"{cls.__qualname__}.__init__")
    constructor.__name__ = "__init__"
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def literal(source: Source, item: Field) -> str:
    """Return an expression for a default that instances can share."""
    if item.default_is_none:
        return "None"
    value = item.default
    return repr(value) if isinstance(value, bool | int | float | str | bytes) else source.constant(value)


def empty(source: Source, cls: type[Struct], item: Field) -> str:
    """Return an expression that creates the empty list or the default struct."""
    if isinstance(item.type, Array):
        return "[]"
    assert isinstance(item.type, str)
    return source.constant(cls.struct(item.type)) + "()"


def is_tagged(item: Field, version: int) -> bool:
    return item.versions.includes(version) and item.tagged.includes(version)


def smallest_size(cls: type[Struct], version: int) -> int:
    """Return the minimal size in bytes of an instance in `version`, which bounds the length of an array."""
    flexible = is_flexible(cls, version)
    total = 1 if flexible else 0
    for item in cls.FIELDS:
        if item.versions.includes(version) and not is_tagged(item, version):
            nullable = item.nullable.includes(version)
            if isinstance(item.type, str):
                total += 1 if nullable else smallest_size(cls.struct(item.type), version)
            else:
                total += element_size(cls, item.type, version)
    return total


def element_size(cls: type[Struct], wire_type: Scalar | Array | str, version: int) -> int:
    """Return the minimal size in bytes of a value of `wire_type` in `version`."""
    if isinstance(wire_type, str):
        return smallest_size(cls.struct(wire_type), version)
    if isinstance(wire_type, Scalar) and wire_type.code:
        return struct.calcsize(">" + wire_type.code)
    if is_flexible(cls, version):
        return 1
    return 2 if isinstance(wire_type, Scalar) and wire_type.name == "String" else 4


def is_flexible(cls: type[Struct], version: int) -> bool:
    message: type[Message] = cls.declaring_message
    return message.FLEXIBLE_VERSIONS.includes(version)


_uuids: dict[bytes, UUID] = {}


def uuid_of(raw: bytes) -> UUID:
    """Return the id with these 16 bytes. Topic ids repeat often and creating a UUID is slow, so recent ones are cached.

    Raises ProtocolError for fewer bytes.
    """
    value = _uuids.get(raw)
    if value is None:
        if len(raw) != 16:
            raise ProtocolError("the id is truncated")
        if len(_uuids) >= UUID_CACHE_LIMIT:
            _uuids.clear()
        value = _uuids[raw] = UUID(bytes=raw)
    return value
