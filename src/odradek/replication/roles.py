"""Roles of a broker for a partition, and the metadata that they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

NO_LEADER = -1
NO_EPOCH = -1


class Role(Enum):
    """Role of this broker for the partition."""

    NEW = "new"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"
    DELETED = "deleted"


TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.NEW: frozenset({Role.LEADER, Role.FOLLOWER, Role.OFFLINE, Role.DELETED}),
    Role.LEADER: frozenset({Role.LEADER, Role.FOLLOWER, Role.OFFLINE, Role.DELETED}),
    Role.FOLLOWER: frozenset({Role.LEADER, Role.FOLLOWER, Role.OFFLINE, Role.DELETED}),
    Role.OFFLINE: frozenset({Role.DELETED}),
    Role.DELETED: frozenset(),
}


class Registration(Protocol):
    """Partition's record in the cluster image, as far as replicas need it (metadata.image.PartitionRegistration)."""

    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def isr(self) -> Sequence[int]: ...
    @property
    def adding_replicas(self) -> Sequence[int]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
