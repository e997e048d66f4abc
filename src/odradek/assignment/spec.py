"""Arguments and results of assignors (org.apache.kafka.coordinator.group.api.assignor).

Results depend only on the arguments, not on the order of mappings or sets. Members and topics are taken in the order of their ids,
partitions in the order of their numbers. Kafka iterates over hash tables, and does not specify which of several equally good results it
picks. As in Kafka 4.3, members have racks, but assignors ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id -> partitions, without empty topics."""


class MemberSpec(NamedTuple):
    """Member with its subscribed topics and its former assignment."""

    topics: frozenset[UUID]
    assignment: Mapping[UUID, frozenset[int]] = {}
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(NamedTuple):
    """Group to be assigned.

    `partition_counts` has each topic that a member subscribes to. `homogeneous` is True when all members subscribe to the same topics.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[UUID, int]
    homogeneous: bool


class AssignorError(Exception):
    """Error of a subscription to a topic that does not exist."""


Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Function that returns member id -> partitions; members without partitions may be missing."""

_SIGN = 1 << 63


def topic_order(topic_id: UUID) -> tuple[int, int]:
    """Return a sort key with the order of Kafka's Uuid: two signed 64-bit halves."""
    number = topic_id.int
    return ((number >> 64) ^ _SIGN, (number & 0xFFFF_FFFF_FFFF_FFFF) ^ _SIGN)


def partition_count(spec: GroupSpec, topic_id: UUID) -> int:
    """Return the number of partitions of a topic. Raises AssignorError for an unknown topic."""
    count = spec.partition_counts.get(topic_id)
    if count is None:
        raise AssignorError(f"a member is subscribed to topic {topic_id}, which does not exist")
    return count
