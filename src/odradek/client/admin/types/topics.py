"""Types of topics, partitions and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.client.admin.types.security import AclOperation


class NewPartitions(NamedTuple):
    """New total number of partitions of a topic, and the replicas of the new ones (broker ids for each, the preferred leader first)."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicPartitionInfo(NamedTuple):
    """Partition of a topic; `leader` is -1 without a leader.

    The eligible leaders outside of the ISR (KIP-966) are None where the broker does not report them.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_eligible_leader_replicas: tuple[int, ...] | None


class TopicDescription(NamedTuple):
    """Topic and its partitions by number; `authorized_operations` only if requested (else None)."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: Mapping[int, TopicPartitionInfo]
    authorized_operations: frozenset[AclOperation] | None = None


class OffsetSpec(IntEnum):
    """Offset of a partition to be looked up. A timestamp (0 or more) in its place means the first record at or after it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """Offset of the record with the greatest timestamp (KIP-734)."""
    EARLIEST_LOCAL = -4
    """First offset on the leader's own disk (KIP-405)."""
    LATEST_TIERED = -5
    """Last offset in remote storage (KIP-1005)."""
    EARLIEST_PENDING_UPLOAD = -6
    """First offset that is not in remote storage yet (KIP-1023)."""


class ListOffsetsResultInfo(NamedTuple):
    """Result of an offset lookup; `offset` is -1 if no offset was found.

    `timestamp` is -1 for lookups that are not by time. `leader_epoch` can be None (unknown).
    """

    offset: int
    timestamp: int
    leader_epoch: int | None
