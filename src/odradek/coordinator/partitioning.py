"""Partition of an id in a coordinator's topic, by Java's String.hashCode, so that all brokers agree."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_LONGEST_KEPT: Final = 255
"""Most characters of an id whose partition is cached, because clients choose ids of up to 32 KiB."""


def java_hash(text: str) -> int:
    """Return java.lang.String.hashCode: a signed 32-bit number computed from the UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        for index in range(0, len(encoded), 2):
            value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & _MASK
    return value - (1 << 32) if value & _SIGN else value


def partition_of(text: str, count: int) -> int:
    """Return abs(hash) modulo the count; the hash -2^31 counts as 0 (Utils.abs)."""
    return _kept(text, count) if len(text) <= _LONGEST_KEPT else _partition_of(text, count)


def _partition_of(text: str, count: int) -> int:
    value = java_hash(text)
    return (0 if value == -_SIGN else abs(value)) % count


_kept = lru_cache(1024)(_partition_of)
