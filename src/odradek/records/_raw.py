"""What the compiled loops do with bare memory, as the interpreter does it with views.

The compiled loops take the twins of these functions from `_raw.pxd`: pointers, which cost no reference count, work without the GIL and
do not let the compiler fear that a byte written changes a buffer's descriptor. Whoever calls has proven that what is read and written
lies in the buffer.
"""

from __future__ import annotations

from typing import Any

_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def octets(view: memoryview) -> memoryview:
    """The bytes of a buffer, for reading."""
    return view


def room(view: memoryview) -> memoryview:
    """The bytes of a buffer, for writing."""
    return view


def words(view: memoryview) -> memoryview:
    """The 64-bit words of a buffer, for reading and writing."""
    return view


def copy(target: memoryview, at: int, source: memoryview | bytes, start: int, size: int) -> None:
    """target[at : at + size] = source[start : start + size], which do not overlap."""
    target[at : at + size] = source[start : start + size]


def numbers(view: memoryview) -> memoryview:
    """The signed 64-bit numbers of a buffer, for reading and writing."""
    return view


def unsigned32(data: memoryview, at: int) -> int:
    """The four bytes at `at`, big-endian."""
    return int.from_bytes(data[at : at + 4], "big")


def signed16(data: memoryview, at: int) -> int:
    """The two bytes at `at`, big-endian, two's complement."""
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def signed32(data: memoryview | bytes, at: int) -> int:
    """As `signed16`, four bytes."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def signed64(data: memoryview, at: int) -> int:
    """As `signed16`, eight bytes."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put32(target: memoryview, at: int, value: int) -> None:
    """Writes the lower four bytes of `value`, big-endian."""
    target[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put64(target: memoryview, at: int, value: int) -> None:
    """Writes the lower eight bytes of `value`, big-endian."""
    target[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def record(kind: Any, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object) -> Any:
    """A NamedTuple of these five."""
    return _new(kind, (offset, timestamp, key, value, headers))


def placed_record(
    kind: Any,
    topic: object,
    partition: object,
    offset: int,
    timestamp: int,
    timestamp_type: object,
    key: bytes | None,
    value: bytes | None,
    headers: object,
) -> Any:
    """A NamedTuple of these eight."""
    return _new(kind, (topic, partition, offset, timestamp, timestamp_type, key, value, headers))


def wrapped32(value: int) -> int:
    """The lower four bytes of `value` as a signed number."""
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def bare(kind: Any) -> Any:
    """An instance of a class for which no `__init__` has run."""
    return kind.__new__(kind)
