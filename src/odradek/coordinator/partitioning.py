"""Which partition of a coordinator's topic an id belongs to: that of Java's String.hashCode, so that all brokers agree."""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: a signed 32-bit number over the UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        for index in range(0, len(encoded), 2):
            value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & _MASK
    return value - (1 << 32) if value & _SIGN else value


@lru_cache(1024)
def partition_of(text: str, count: int) -> int:
    """abs(hash) modulo the count; the one number without an absolute value counts as 0 (Utils.abs)."""
    value = java_hash(text)
    return (0 if value == -_SIGN else abs(value)) % count
