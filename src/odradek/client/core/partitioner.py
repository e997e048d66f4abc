"""Partitioners: choice of the partition of a record.

A keyed record goes to the partition of the key's murmur2 hash, as in every Kafka client. Records without a key stick to a partition and
prefer partitions with short queues. A class in partitioner.class may decide otherwise (KIP-480, KIP-794;
org.apache.kafka.clients.producer.internals.BuiltInPartitioner).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from odradek.client.core.metadata import ClusterView, TopicInfo
from odradek.records.codec import murmur2 as murmur2


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a keyed record; the same as in every client with Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class PartitionLoad(NamedTuple):
    """State of a partition at the moment when the next partition is chosen."""

    partition: int
    has_leader: bool
    queued: int | None
    """Batches that wait for the leader; None before anything was sent to the partition."""
    is_late: bool = False
    """True when batches wait and the leader has taken none for partitioner.availability.timeout.ms."""


class StickyPartitioner:
    """Partitioner that keeps records without a key on one partition for `batch_size` bytes, then moves to another partition at random.

    The other partitions are equally likely, unless `adaptive` is set. With `adaptive` a partition's weight is the length of the longest
    queue, plus 1, less the length of the partition's queue. Partitions without a leader are avoided while there is another partition.
    """

    __slots__ = ("_adaptive", "_batch_size", "_bytes", "_rng", "current")

    def __init__(self, batch_size: int, rng: random.Random, *, adaptive: bool = True) -> None:
        self._batch_size = max(1, batch_size)
        self._rng = rng
        self._adaptive = adaptive
        self.current: int | None = None
        """Partition of the next record without a key; None before the first record."""
        self._bytes = 0

    def is_over(self, *, filling: bool) -> bool:
        """Return whether the next record should go to another partition.

        While the last batch is `filling`, the limit is twice `batch_size`: otherwise a nearly empty batch would be sent at each move.
        """
        return self.current is None or self._bytes >= self._batch_size * (2 if filling else 1)

    def took(self, size: int) -> None:
        """Note that `size` bytes went to the current partition."""
        self._bytes += size

    def move(self, loads: Sequence[PartitionLoad]) -> int:
        """Choose, store and return the next partition. `loads` has every partition of the topic, at least one."""
        self._bytes = 0
        chances = odds(loads) if self._adaptive else None
        if chances is None:
            able = [load.partition for load in loads if load.has_leader] or [load.partition for load in loads]
            others = [partition for partition in able if partition != self.current] or able
            self.current = others[self._rng.randrange(len(others))]
        else:
            (self.current,) = self._rng.choices(list(chances), list(chances.values()))
        return self.current


def odds(loads: Sequence[PartitionLoad]) -> dict[int, int] | None:
    """Return partition -> its weight in the next choice; None where all partitions with a leader are equally likely.

    A late partition is left out while batches wait for it. Queue lengths are ignored until every partition has had a batch.
    """
    if len(loads) < 2 or any(load.queued is None for load in loads):
        return None
    queued = {load.partition: load.queued or 0 for load in loads if load.has_leader and not (load.is_late and load.queued)}
    if not queued or (len(queued) == len(loads) and len(set(queued.values())) == 1):
        return None
    longest = max(queued.values())
    return {partition: longest + 1 - length for partition, length in queued.items()}


class Partitioner(Protocol):
    """Interface of partitioner.class (org.apache.kafka.clients.producer.Partitioner).

    Threads that send may call the partitioner at the same time. The methods `configure(settings)` and `close()` are optional.
    """

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
        """Return the partition of a record that was sent without a partition. Must not block.

        `key` and `value` are the objects before serialization, `key_bytes` and `value_bytes` the serialized ones. send() raises any error
        raised here.
        """
        ...


class RoundRobinPartitioner:
    """Partitioner that takes the partitions with a leader in turn (org.apache.kafka.clients.producer.RoundRobinPartitioner).

    The key has no influence.
    """

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
        """Return the next partition of the topic."""
        partitions = partitions_with_leader(cluster.topics[topic])
        turns = self._turns.get(topic) or self._turns.setdefault(topic, count())
        return partitions[next(turns) % len(partitions)]


def partitions_with_leader(info: TopicInfo) -> list[int]:
    """Return the partitions that have a leader, in order; all partitions when none of them has a leader."""
    return sorted(number for number, part in info.partitions.items() if part.leader >= 0) or sorted(info.partitions)
