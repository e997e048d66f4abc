"""Interface of all group types for offsets, listing and deletion (org.apache.kafka.coordinator.group.Group)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from odradek.coordinator.records import CoordinatorRecord


class GroupType(Enum):
    """Type of a group; the values are the names in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """Facts about the sender of a request that groups need or keep."""

    api_version: int
    client_id: str = ""
    client_host: str = ""
    """Address in Java's form: "/127.0.0.1"."""
    may_describe: Callable[[str], bool] | None = None
    """Function that returns whether the caller may describe a topic; None when everyone may."""


class OffsetExpiry(NamedTuple):
    """Expiration of a group's offsets: retention counts from `base_timestamp`, or with None from each offset's commit."""

    base_timestamp: int | None


CommitValidator = Callable[[UUID, int], object]
"""Check of a commit for a partition (topic id, partition). Raises KafkaError to refuse the commit."""


class Group(Protocol):
    """Group of any type. Methods raise KafkaError with the client's error."""

    group_id: str

    @property
    def type(self) -> GroupType: ...

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        ...

    @property
    def state_name(self) -> str:
        """Return the state's name in DescribeGroups and ListGroups."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """Return the protocol type; "" without a type."""
        ...

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_or_epoch: int, *, transactional: bool, api_version: int
    ) -> CommitValidator | None:
        """Check a commit. Return a further check to be called for each partition, or None."""
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def validate_offset_delete(self) -> None: ...

    def validate_delete_group(self) -> None: ...

    def is_subscribed_to_topic(self, topic: str) -> bool: ...

    def offset_expiry(self) -> OffsetExpiry | None:
        """Return how the offsets expire; None when no offset may expire now."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group."""
        ...


KeepAlive = Callable[[Group, str], object]
"""Function that extends the session of a member (by id) that commits offsets."""
