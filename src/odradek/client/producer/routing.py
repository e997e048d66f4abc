"""Routing of the producer's records: the partition of each, and the open batches (gatherers) that take records without further checks."""

from __future__ import annotations

import random
from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.accumulator import Accumulator, Batch
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.partitioner import PartitionLoad, StickyPartitioner, partition_for_key
from odradek.client.settings.config import ClientConfig
from odradek.client.settings.producer_keys import (
    BATCH_SIZE,
    MAX_REQUEST_SIZE,
    PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE,
    PARTITIONER_IGNORE_KEYS,
)
from odradek.records.codec import Gatherer, Ticket

_STICKY_BYTES = 16 * 1024
"""Bytes of records without a key after which they move to another partition, where batch.size is not set: as with Java's producer."""


class Router:
    """Router of the engine, whose lock guards all methods but `gather`.

    Records without partition and key share a gatherer per topic; records with a key have one per partition. Closing a batch closes its
    gatherer: the next record goes through `target` again.
    """

    def __init__(self, config: ClientConfig, accumulator: Accumulator, is_late: Callable[[int], bool], rng: random.Random) -> None:
        """Create a router; `is_late(node id)` tells whether the node has accepted no request for partitioner.availability.timeout.ms."""
        self._accumulator = accumulator
        self._is_late = is_late
        self._rng = rng
        self._batch_size = config[BATCH_SIZE]
        self._sticky_size = self._batch_size if config.is_set(BATCH_SIZE) else min(_STICKY_BYTES, self._batch_size)
        self._ignore_keys = config[PARTITIONER_IGNORE_KEYS]
        self._adaptive = config[PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE]
        self._gathers = self._batch_size <= config[MAX_REQUEST_SIZE]
        self._sticky: dict[str, StickyPartitioner] = {}
        self.gatherers: dict[str, Gatherer] = {}
        """By topic, the gatherer of records without partition and key."""
        self._keyed: dict[str, list[Gatherer | None]] = {}
        self._gathered_from: dict[str, int] = {}

    def forget(self) -> None:
        """Drop all gatherers, so that each record goes through `target`."""
        self.gatherers.clear()
        self._keyed.clear()

    def gather(self, topic: str, key: bytes | None, value: object, timestamp: int | None) -> Ticket | None:
        """Queue a record without partition and headers in an open batch. Return its ticket, or None when no gatherer has taken the record.

        Any thread may call this method.
        """
        if key is None or self._ignore_keys:
            gatherer = self.gatherers.get(topic)
        else:
            keyed = self._keyed.get(topic)
            gatherer = None if keyed is None else keyed[partition_for_key(key, len(keyed))]
        return None if gatherer is None else gatherer.take(key, value, timestamp)

    def target(self, info: TopicInfo, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        """Return the partition for a record of `size` bytes. Raises KafkaError for a partition that does not exist."""
        if partition is not None:
            if partition not in info.partitions:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {info.name} has partitions 0 to {len(info.partitions) - 1}, not {partition}",
                )
            return TopicPartition(info.name, partition)
        if key is not None and not self._ignore_keys:
            return TopicPartition(info.name, partition_for_key(key, len(info.partitions)))
        return TopicPartition(info.name, self._stick(info, size))

    def _stick(self, info: TopicInfo, size: int) -> int:
        sticky = self._sticky.get(info.name)
        if sticky is None:
            sticky = self._sticky[info.name] = StickyPartitioner(self._sticky_size, self._rng, adaptive=self._adaptive)
        gatherer = self.gatherers.pop(info.name, None)
        if gatherer is not None:
            sticky.took(self._gathered_from[info.name] - gatherer.room)
        part = None if sticky.current is None else info.partitions.get(sticky.current)
        if part is not None and (part.leader >= 0 or all(other.leader < 0 for other in info.partitions.values())):
            filling = self._accumulator.is_filling(TopicPartition(info.name, part.partition), size)
            if not sticky.is_over(filling=filling):
                return part.partition
        return sticky.move(self._loads(info))

    def _loads(self, info: TopicInfo) -> list[PartitionLoad]:
        queues = self._accumulator.queues
        loads: list[PartitionLoad] = []
        for number, part in info.partitions.items():
            queue = queues.get(TopicPartition(info.name, number))
            loads.append(PartitionLoad(number, part.leader >= 0, None if queue is None else len(queue), self._is_late(part.leader)))
        return loads

    def took(self, info: TopicInfo, key: bytes | None, partition: int | None, size: int, batch: Batch | None = None) -> None:
        """Note `size` bytes for the partition that `target` chose. `batch` may take more such records until it is full or closed."""
        if partition is not None:
            return
        gatherer = None if batch is None else batch.gatherer
        if gatherer is not None and not (gatherer.is_atomic and self._gathers):
            gatherer = None
        if key is None or self._ignore_keys:
            self._sticky[info.name].took(size)
            if gatherer is not None:
                self._gathered_from[info.name] = gatherer.room
                self.gatherers[info.name] = gatherer
        elif gatherer is not None:
            keyed = self._keyed.get(info.name)
            if keyed is None or len(keyed) != len(info.partitions):
                keyed = self._keyed[info.name] = [None] * len(info.partitions)
            keyed[partition_for_key(key, len(keyed))] = gatherer
