"""Which partition a record goes to: murmur2 of the key as every Kafka client computes it; without a key sticky, more often to partitions
whose queues are short (KIP-480, KIP-794; org.apache.kafka.clients.producer.internals.BuiltInPartitioner); or as a partitioner says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from odradek.client.core.metadata import ClusterView, TopicInfo
from odradek.records.codec import murmur2 as murmur2


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a keyed record, equal for every client with Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class PartitionLoad(NamedTuple):
    """What is known of a partition when the next one is chosen."""

    partition: int
    has_leader: bool
    queued: int | None
    """Batches that wait for the leader; None before anything was sent to the partition."""
    is_late: bool = False
    """Whether the leader has taken nothing for partitioner.availability.timeout.ms although something waits."""


class StickyPartitioner:
    """Keeps records without a key on one partition until a batch worth of bytes went there, then moves to another at random.

    The odds are equal, or with `adaptive` the better the fewer batches wait: the longest queue counts as 1, an empty one as that length
    and 1. Partitions without a leader are avoided while there is another.
    """

    __slots__ = ("_adaptive", "_batch_size", "_bytes", "_rng", "current")

    def __init__(self, batch_size: int, rng: random.Random, *, adaptive: bool = True) -> None:
        self._batch_size = max(1, batch_size)
        self._rng = rng
        self._adaptive = adaptive
        self.current: int | None = None
        """Where records go now, None before the first."""
        self._bytes = 0

    def is_over(self, *, filling: bool) -> bool:
        """Whether it is time to move. While the last batch is `filling`, it is only after twice as many bytes: else a batch would go out
        nearly empty each time.
        """
        return self.current is None or self._bytes >= self._batch_size * (2 if filling else 1)

    def took(self, size: int) -> None:
        """So many bytes went to the current partition."""
        self._bytes += size

    def move(self, loads: Sequence[PartitionLoad]) -> int:
        """The next partition; `loads` are all of the topic's, at least one."""
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
    """How likely each partition is to be next, None where all with a leader are alike.

    A late partition is out as long as something waits for it. Queues mean nothing before each partition has had one.
    """
    if len(loads) < 2 or any(load.queued is None for load in loads):
        return None
    queued = {load.partition: load.queued or 0 for load in loads if load.has_leader and not (load.is_late and load.queued)}
    if not queued or (len(queued) == len(loads) and len(set(queued.values())) == 1):
        return None
    longest = max(queued.values())
    return {partition: longest + 1 - length for partition, length in queued.items()}


class Partitioner(Protocol):
    """What partitioner.class takes (org.apache.kafka.clients.producer.Partitioner). Threads that send may call it at the same time.

    It may have `configure(settings)` and `close()`, too.
    """

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
        """The partition of a record that was sent without one; key and value before and after the serializers. What it raises, send()
        raises. It must not block.
        """
        ...


class RoundRobinPartitioner:
    """Partitions with a leader in turn, whatever the key (org.apache.kafka.clients.producer.RoundRobinPartitioner)."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
        """The next in turn."""
        partitions = partitions_with_leader(cluster.topics[topic])
        turns = self._turns.get(topic) or self._turns.setdefault(topic, count())
        return partitions[next(turns) % len(partitions)]


def partitions_with_leader(info: TopicInfo) -> list[int]:
    """The partitions that have a leader, in order; all of them when none has."""
    return sorted(number for number, part in info.partitions.items() if part.leader >= 0) or sorted(info.partitions)
