"""What every type of group answers to the parts that are common: offsets, listing, deletion (org.apache.kafka.coordinator.group.Group)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from odradek.coordinator.records import CoordinatorRecord


class GroupType(Enum):
    """As ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """Who sends a request, as far as groups keep or need it."""

    api_version: int
    client_id: str = ""
    client_host: str = ""
    """As Java prints an address: "/127.0.0.1"."""
    may_describe: Callable[[str], bool] | None = None
    """Whether it may describe a topic; None where everybody may."""


class OffsetExpiry(NamedTuple):
    """When a group's offsets expire: retention counts from `base_timestamp`, or from each offset's commit when it is None."""

    base_timestamp: int | None


CommitValidator = Callable[[UUID, int], object]
"""Refuses, with KafkaError, a commit for a partition (topic id, partition)."""


class Group(Protocol):
    """Raises KafkaError with what the client is to get."""

    group_id: str

    @property
    def type(self) -> GroupType: ...

    @property
    def is_empty(self) -> bool:
        """Without members."""
        ...

    @property
    def state_name(self) -> str:
        """As DescribeGroups and ListGroups show it."""
        ...

    @property
    def protocol_type_name(self) -> str:
        """The protocol type, "" when there is none."""
        ...

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_or_epoch: int, *, transactional: bool, api_version: int
    ) -> CommitValidator | None:
        """What is left to be asked for each partition, None when there is nothing."""
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def validate_offset_delete(self) -> None: ...

    def validate_delete_group(self) -> None: ...

    def is_subscribed_to_topic(self, topic: str) -> bool: ...

    def offset_expiry(self) -> OffsetExpiry | None:
        """None: no offset expires now."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group."""
        ...


KeepAlive = Callable[[Group, str], object]
"""Tells that a member (by id) was heard of while it committed."""
