"""Replicas for tests: logs on a virtual disk, and a controller that answers when the test tells it to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.batch import encode_batch, iter_headers
from odradek.replication.alter_partition import IsrAnswer, IsrChange
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.fetch_params import FetchParams, FetchPartition, Isolation, isolation_for
from odradek.replication.following import truncate_to_divergence
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.isr_proposals import IsrProposals
from odradek.replication.partition import Partition
from odradek.replication.reader import PartitionRead, Reader
from odradek.storage.append import AppendOrigin
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.storage.options import LogOptions
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock

TOPIC_ID = UUID("11111111-2222-3333-4444-555555555555")
TP = TopicPartition("orders", 0)
MAX_LAG_MS = 30_000


class Brokers:
    """`ClusterView`: the live brokers with their epochs."""

    def __init__(self, epochs: dict[int, int]) -> None:
        self.epochs = epochs
        self.shutting_down: set[int] = set()
        self.partitions: set[TopicPartition] = set()
        self.failed_replicas: set[tuple[TopicPartition, int]] = set()

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def is_shutting_down(self, broker_id: int) -> bool:
        return broker_id in self.shutting_down

    def has_online_replica(self, partition: TopicPartition, broker_id: int) -> bool:
        return (partition, broker_id) not in self.failed_replicas

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition in self.partitions

    def rack(self, broker_id: int, listener: str) -> str | None:
        return f"rack{broker_id}" if broker_id in self.epochs else None


class Controller:
    """`IsrChannel` that keeps requests until the test answers them."""

    def __init__(self) -> None:
        self.changes: list[tuple[IsrChange, Deferred[IsrAnswer]]] = []

    def submit(self, change: IsrChange) -> Deferred[IsrAnswer]:
        deferred: Deferred[IsrAnswer] = Deferred()
        self.changes.append((change, deferred))
        return deferred

    def proposed(self) -> list[int]:
        """Return the ISR of the last proposed change."""
        return [broker for broker, _ in self.changes[-1][0].isr]

    def accept(self) -> None:
        change, deferred = self.changes.pop(0)
        members = frozenset(broker for broker, _ in change.isr)
        deferred.complete(IsrAnswer(1, change.leader_epoch, change.partition_epoch + 1, members))

    def refuse(self, code: ErrorCode) -> None:
        _, deferred = self.changes.pop(0)
        deferred.fail(KafkaError(code))


class PartitionMetadata(NamedTuple):
    """`Registration` of a partition."""

    leader: int = 1
    leader_epoch: int = 0
    partition_epoch: int = 0
    replicas: Sequence[int] = (1, 2)
    isr: Sequence[int] = (1, 2)
    adding_replicas: Sequence[int] = ()


def topic_config(**overrides: str) -> TopicConfig:
    return TopicConfig.build(None, {key.replace("_", "."): value for key, value in overrides.items()})


def new_log(
    clock: ManualClock,
    *,
    disk: VirtualDisk | None = None,
    directory: str = "/data/orders-0",
    options: LogOptions | None = None,
    **overrides: str,
) -> Log:
    disk = disk or VirtualDisk()
    disk.makedirs(directory)
    log = load_log(disk, clock, TP, directory, topic_config(**overrides), options=options)
    log.assign_topic_id(TOPIC_ID)
    return log


def batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> memoryview:
    """Return a record batch as a client sends it."""
    return memoryview(encode_batch([(timestamp, None, value, ()) for value in values or (b"value",)], **options))


class Node:
    """Broker with one replica, with as much of the broker as a partition needs."""

    def __init__(
        self,
        node_id: int,
        clock: ManualClock,
        brokers: Brokers,
        *,
        disk: VirtualDisk | None = None,
        options: LogOptions | None = None,
        **config: str,
    ) -> None:
        self.id = node_id
        self.clock = clock
        self.controller = Controller()
        self.delayed = DelayedOperations(clock)
        self.hosted = HostedPartitions(brokers)
        self.reader = Reader(self.hosted, self.delayed)
        self.log = new_log(clock, disk=disk, directory=f"/node{node_id}/orders-0", options=options, **config)
        self.partition = Partition(
            TP,
            TOPIC_ID,
            local_id=node_id,
            clock=clock,
            cluster=brokers,
            proposals=IsrProposals(self.controller, clock, node_id, lambda: brokers.epochs[node_id], self.delayed.drain),
            delayed=self.delayed,
            max_lag_ms=MAX_LAG_MS,
        )
        self.hosted.by_name[TP] = self.partition
        brokers.partitions.add(TP)

    def append(self, *values: bytes, acks: int = 1) -> int:
        """Append as leader and return the base offset."""
        info, advanced = self.partition.append_as_leader(batch(*values), acks, AppendOrigin.CLIENT)
        if advanced:
            self.delayed.partition_changed(TP)
        else:
            self.delayed.log_end_moved(TP)
        self.delayed.drain()
        return info.first_offset


def fetch_as(
    replica_id: int, *, isolation_level: int = 0, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20, **more: Any
) -> FetchParams:
    return FetchParams(
        replica_id, isolation_for(replica_id, isolation_level), max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, **more
    )


def wanted(offset: int, *, max_bytes: int = 1 << 20, topic_id: UUID = TOPIC_ID, **more: Any) -> FetchPartition:
    return FetchPartition("orders", topic_id, 0, fetch_offset=offset, max_bytes=max_bytes, **more)


def content(read: PartitionRead) -> bytes:
    """Return the bytes of a read, and release them."""
    data = b"".join(piece.read(0, piece.size) for piece in read.slices)
    read.release()
    return data


def base_offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(memoryview(data))]


def replicate(leader: Node, follower: Node, *, broker_epoch: int = -1, max_bytes: int = 1 << 20) -> PartitionRead:
    """Make the follower fetch once and apply the response. Return the response."""
    log = follower.log
    params = fetch_as(follower.id, replica_epoch=broker_epoch)
    request = wanted(
        log.log_end_offset,
        max_bytes=max_bytes,
        current_leader_epoch=follower.partition.leader_epoch,
        last_fetched_epoch=log.latest_epoch,
        log_start_offset=log.log_start_offset,
    )
    [(_, read)] = leader.reader.read(params, [request], update_follower=True)
    leader.delayed.drain()
    if read.error is not ErrorCode.NONE:
        return read
    if read.diverging_epoch is not None:
        truncate_to_divergence(follower.partition.followed_log(), *read.diverging_epoch)
        return read
    data = content(read)
    follower.partition.append_as_follower(
        memoryview(data), follower.partition.leader_epoch, high_watermark=read.high_watermark, log_start_offset=read.log_start_offset
    )
    return read


LOG_END = Isolation.LOG_END
