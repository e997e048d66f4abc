"""Arguments, results and shared functions of assignors (org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.base.ids import TopicPartition

UNKNOWN_GENERATION = -1


class Member(NamedTuple):
    """Member of a group as its leader sees it."""

    topics: Sequence[str]
    """Topics to which the member subscribes. Topics that do not exist are ignored."""
    owned: Sequence[TopicPartition] = ()
    """Partitions of the member in the assignment of `generation`."""
    generation: int = UNKNOWN_GENERATION
    """Generation of `owned`, -1 if unknown."""
    instance_id: str | None = None
    """group.instance.id, which keeps the member's place in the order when it returns with another member id."""
    rack: str | None = None
    """client.rack; None or empty without a rack."""


Members = Mapping[str, Member]
"""Members by member id."""

Topics = Mapping[str, Sequence[frozenset[str]]]
"""For each existing topic the racks of each partition's replicas, by partition number; empty sets where racks are unknown."""

Assignment = dict[str, list[TopicPartition]]
"""Partitions of every member."""


def in_order(members: Members) -> list[str]:
    """Return member ids in the order of ranges and rounds: static members first, by instance id, then the others by member id."""
    return sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (instance_id is None, member_id if instance_id is None else instance_id)


def needs_racks(member_racks: Collection[str], partitions: Iterable[frozenset[str]]) -> bool:
    """Return whether racks can make a difference (KIP-881).

    That is so if some member's rack has a replica, and some partition lacks a replica on a rack that other partitions use.
    """
    if not member_racks:
        return False
    each = list(partitions)
    everywhere = frozenset[str]().union(*each)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in each)
