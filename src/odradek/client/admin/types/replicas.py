"""Types of replicas: log directories, reassignments, leader elections."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition


class ElectionType(IntEnum):
    """Candidates of a leader election: PREFERRED is the first replica if it is in sync, UNCLEAN any replica, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    """Reassignment of a partition that is under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class TopicPartitionReplica(NamedTuple):
    """Replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


class ReplicaInfo(NamedTuple):
    """Replica in a log directory.

    `offset_lag` is its lag behind the high watermark; that of a future replica is its lag behind the current replica.
    """

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """Log directory; `error` tells why it cannot be used. The bytes of its file system are None from brokers too old to report them."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ReplicaLogDirInfo(NamedTuple):
    """Log directory of a replica, None when the broker does not have the replica. While the replica moves, `future_log_dir` is set."""

    current_log_dir: str | None = None
    current_offset_lag: int | None = None
    future_log_dir: str | None = None
    future_offset_lag: int | None = None
