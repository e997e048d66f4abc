"""What assignors are told and what they answer (org.apache.kafka.coordinator.group.api.assignor).

Results depend on the arguments alone, not on the order of mappings or sets: members are taken in the order of their ids, topics in that of
their ids, partitions in that of their numbers. Kafka iterates over hash tables there, and leaves open which of several equally good results
it picks. As in Kafka 4.3, members have racks, but assignors ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Topic id -> partitions; topics without partitions are left out."""


class MemberSpec(NamedTuple):
    """One member: what it subscribes to, and what it has by the assignment before."""

    topics: frozenset[UUID]
    assignment: Mapping[UUID, frozenset[int]] = {}
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(NamedTuple):
    """`partition_counts` has every topic that a member subscribes to. `homogeneous`: all members subscribe to the same topics."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[UUID, int]
    homogeneous: bool


class AssignorError(Exception):
    """A member subscribes to a topic that does not exist."""


Assignor = Callable[[GroupSpec], dict[str, Partitions]]
"""Member id -> partitions; members that get nothing may be left out."""

_SIGN = 1 << 63


def topic_order(topic_id: UUID) -> tuple[int, int]:
    """Sorts as Kafka's Uuid does: two signed halves."""
    number = topic_id.int
    return ((number >> 64) ^ _SIGN, (number & 0xFFFF_FFFF_FFFF_FFFF) ^ _SIGN)


def partition_count(spec: GroupSpec, topic_id: UUID) -> int:
    """AssignorError when there is no such topic."""
    count = spec.partition_counts.get(topic_id)
    if count is None:
        raise AssignorError(f"a member is subscribed to topic {topic_id}, which does not exist")
    return count
