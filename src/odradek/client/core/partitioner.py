"""Which partition a record goes to: murmur2 of the key as every Kafka client computes it, or sticky when there is no key (KIP-480)."""

from __future__ import annotations

import random
from collections.abc import Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (org.apache.kafka.common.utils.Utils.murmur2) as a signed 32-bit number."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a keyed record, equal for every client with Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Keeps records without a key on one partition until a batch worth of bytes went there, then moves to another at random.

    Partitions without a leader are avoided while there is another (BuiltInPartitioner, without its load weighting).
    """

    __slots__ = ("_batch_size", "_bytes", "_current", "_rng")

    def __init__(self, batch_size: int, rng: random.Random) -> None:
        self._batch_size = batch_size
        self._rng = rng
        self._current: int | None = None
        self._bytes = 0

    def choose(self, available: Sequence[int], size: int) -> int:
        """The partition for the next `size` bytes; `available` are the candidates, not empty."""
        current = self._current
        if current is None or self._bytes >= self._batch_size or current not in available:
            current = self._next(available)
        self._bytes += size
        return current

    def _next(self, available: Sequence[int]) -> int:
        self._bytes = 0
        others = [partition for partition in available if partition != self._current] or list(available)
        self._current = others[self._rng.randrange(len(others))]
        return self._current
