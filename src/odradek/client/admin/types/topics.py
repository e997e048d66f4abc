"""Topics, partitions and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.client.admin.types.security import AclOperation


class NewPartitions(NamedTuple):
    """How many partitions a topic is to have in all, and who gets the new ones (broker ids of each, the leader's first)."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicPartitionInfo(NamedTuple):
    """A partition; `leader` is -1 while there is none. The eligible leaders beside the in-sync replicas (KIP-966) are None where the
    broker does not say."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_eligible_leader_replicas: tuple[int, ...] | None


class TopicDescription(NamedTuple):
    """A topic and its partitions by number; `authorized_operations` is None unless asked for."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: Mapping[int, TopicPartitionInfo]
    authorized_operations: frozenset[AclOperation] | None = None


class OffsetSpec(IntEnum):
    """Which offset of a partition is meant; a timestamp (0 or more) means the first record at or after it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """That of the record with the greatest timestamp (KIP-734)."""
    EARLIEST_LOCAL = -4
    """The first that is on the leader's own disk (KIP-405)."""
    LATEST_TIERED = -5
    """The last that is in remote storage (KIP-1005)."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first that is not in remote storage yet (KIP-1023)."""


class ListOffsetsResultInfo(NamedTuple):
    """An offset, -1 where there is none; `timestamp` is -1 where it was not asked by time, `leader_epoch` None where not known."""

    offset: int
    timestamp: int
    leader_epoch: int | None
