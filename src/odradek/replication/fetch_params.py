"""Parameters of a fetch, for the replica manager."""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition

CONSUMER = -1
DEBUGGING_CONSUMER = -2
"""Replica ids that are not brokers: a client, and a tool that may read beyond the high watermark from any replica."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""Isolation levels on the wire."""

NO_EPOCH = -1


class Isolation(Enum):
    """Limit up to which a fetch may read (org.apache.kafka.server.storage.log.FetchIsolation)."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    LAST_STABLE_OFFSET = 2


def check_isolation_level(isolation_level: int) -> None:
    """Raise INVALID_REQUEST for an isolation level that does not exist."""
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The isolation level {isolation_level} does not exist")


def isolation_for(replica_id: int, isolation_level: int) -> Isolation:
    """Return how far a fetch may read: brokers and debugging tools to the log end, consumers as their isolation level says.

    Raises INVALID_REQUEST for a consumer's isolation level that does not exist.
    """
    if replica_id != CONSUMER:
        return Isolation.LOG_END
    check_isolation_level(isolation_level)
    return Isolation.LAST_STABLE_OFFSET if isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK


class FetchParams:
    """Parameters of a fetch that hold for all its partitions. Sizes are bytes; `replica_epoch` is -1 when unknown."""

    __slots__ = (
        "client_rack",
        "from_follower",
        "isolation",
        "leader_only",
        "listener",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "replica_epoch",
        "replica_id",
    )

    def __init__(
        self,
        replica_id: int,
        isolation: Isolation,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        replica_epoch: int = NO_EPOCH,
        leader_only: bool = True,
        client_rack: str = "",
        listener: str = "",
    ) -> None:
        self.replica_id = replica_id
        self.from_follower = replica_id >= 0
        self.isolation = isolation
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.replica_epoch = replica_epoch
        self.leader_only = leader_only
        """False for clients of Fetch 11 and later, which may read from a follower (KIP-392)."""
        self.client_rack = client_rack
        """Rack of a consumer, sent with Fetch 11 and later; empty without one."""
        self.listener = listener
        """Name of the listener that received the fetch."""


class FetchPartition:
    """Partition of a fetch. In a session it persists between requests and remembers the last answer (KIP-227).

    `topic` is None while the topic id is unknown to this broker. Epochs are -1 when the client sends none.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "local_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: UUID,
        partition: int,
        *,
        fetch_offset: int,
        max_bytes: int,
        log_start_offset: int = -1,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.topic_partition = TopicPartition(topic or "", partition)
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.log_start_offset = log_start_offset
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = -1
        self.local_log_start_offset = -1

    def take(self, other: FetchPartition) -> None:
        """Take the positions, limits and epochs of a newer request."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.log_start_offset = other.log_start_offset
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch

    def resolve(self, topic: str) -> None:
        """Set the name of the topic, whose id has become known."""
        self.topic = topic
        self.topic_partition = TopicPartition(topic, self.partition)

    def __repr__(self) -> str:
        return f"FetchPartition({self.topic or self.topic_id}-{self.partition} at {self.fetch_offset})"
