"""Which partition a record goes to: murmur2 of the key as every Kafka client computes it, or sticky when there is no key (KIP-480)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from odradek.records.codec import murmur2 as murmur2


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

    def took(self, size: int) -> None:
        """So many more bytes went to the partition that was chosen last."""
        self._bytes += size

    def _next(self, available: Sequence[int]) -> int:
        self._bytes = 0
        others = [partition for partition in available if partition != self._current] or list(available)
        self._current = others[self._rng.randrange(len(others))]
        return self._current
