"""Which nodes lead partitions of coordinators no more, and do not know it. Such a node answers from what it had, as Kafka's does: it was
paused or cut off while the controller chose another leader, and reads of that only after it goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from odradek.base.ids import TopicPartition


class Leadership(NamedTuple):
    """Of a partition."""

    leader: int
    epoch: int


class DeposedLeaders:
    """Compares what the nodes have read of the metadata. Times are in seconds, on one clock."""

    def __init__(self) -> None:
        self._newest: dict[TopicPartition, Leadership] = {}
        self._read: dict[int, Mapping[TopicPartition, Leadership]] = {}
        self._learned: dict[tuple[int, TopicPartition], float] = {}
        """When a deposed leader last read that it is none."""

    def read(self, node: int, found: Mapping[TopicPartition, Leadership], now: float) -> None:
        """What a node has read by now: all of it is committed."""
        unaware = [partition for partition in self._newest if self._is_unaware(node, partition)]
        self._read[node] = found
        for partition, leadership in found.items():
            if partition not in self._newest or leadership.epoch > self._newest[partition].epoch:
                self._newest[partition] = leadership
        for partition in unaware:
            if not self._is_unaware(node, partition):
                self._learned[node, partition] = now

    def was_unaware(self, node: int, partition: TopicPartition, since: float) -> bool:
        """Whether the node took itself for the leader, at some time from `since` to now, while another had been elected."""
        return self._is_unaware(node, partition) or self._learned.get((node, partition), -math.inf) >= since

    def _is_unaware(self, node: int, partition: TopicPartition) -> bool:
        newest, read = self._newest.get(partition), self._read.get(node, {}).get(partition)
        return newest is not None and read is not None and read.leader == node != newest.leader and newest.epoch > read.epoch
