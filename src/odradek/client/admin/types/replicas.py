"""Replicas: where they are, where they are going, who leads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition


class ElectionType(IntEnum):
    """Who may become leader: the first replica if it is in sync, or any replica, which may lose records."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    """A change of replicas that is under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `offset_lag` is how far it is behind the high watermark, or, of the future replica that is to replace
    the present one in another directory, behind that one."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log directory; `error` says why it cannot be used. The bytes of its file system are None where the broker is too old to say."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ReplicaLogDirInfo(NamedTuple):
    """Where a replica is, None when the broker has none; and where its future replica is, while it moves between directories."""

    current_log_dir: str | None = None
    current_offset_lag: int | None = None
    future_log_dir: str | None = None
    future_offset_lag: int | None = None
