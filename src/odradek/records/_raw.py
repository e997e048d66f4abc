"""Access to raw memory for the compiled loops, as functions on views for the interpreter.

The compiled loops take the twins of these functions from `_raw.pxd`. These are pointers, which cost no reference count and work without the
GIL. With pointers the compiler need not assume that a written byte changes a buffer's descriptor. The caller has proven that the bytes read
and written lie in the buffer.
"""

from __future__ import annotations

from typing import Any

_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def octets(view: memoryview) -> memoryview:
    """Return the bytes of a buffer, for reading."""
    return view


def room(view: memoryview) -> memoryview:
    """Return the bytes of a buffer, for writing."""
    return view


def words(view: memoryview) -> memoryview:
    """Return the 64-bit words of a buffer, for reading and writing."""
    return view


def copy(target: memoryview, at: int, source: memoryview | bytes, start: int, size: int) -> None:
    """Copy source[start : start + size] to target[at : at + size]; the two must not overlap."""
    target[at : at + size] = source[start : start + size]


def numbers(view: memoryview) -> memoryview:
    """Return the signed 64-bit numbers of a buffer, for reading and writing."""
    return view


def unsigned32(data: memoryview, at: int) -> int:
    """Return the four bytes at `at` as an unsigned big-endian number."""
    return int.from_bytes(data[at : at + 4], "big")


def signed16(data: memoryview, at: int) -> int:
    """Return the two bytes at `at` as a signed big-endian number."""
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def signed32(data: memoryview | bytes, at: int) -> int:
    """Return the four bytes at `at` as a signed big-endian number."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def signed64(data: memoryview, at: int) -> int:
    """Return the eight bytes at `at` as a signed big-endian number."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put32(target: memoryview, at: int, value: int) -> None:
    """Write the lower four bytes of `value`, big-endian."""
    target[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put64(target: memoryview, at: int, value: int) -> None:
    """Write the lower eight bytes of `value`, big-endian."""
    target[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def record(kind: Any, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object) -> Any:
    """Return a NamedTuple `kind` of the five fields."""
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
    """Return a NamedTuple `kind` of the eight fields."""
    return _new(kind, (topic, partition, offset, timestamp, timestamp_type, key, value, headers))


def wrapped32(value: int) -> int:
    """Return the lower four bytes of `value` as a signed number."""
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def bare(kind: Any) -> Any:
    """Return an instance of a class without running `__init__`."""
    return kind.__new__(kind)
