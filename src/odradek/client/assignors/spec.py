"""What assignors are given, and what they have in common (org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.base.ids import TopicPartition

UNKNOWN_GENERATION = -1


class Member(NamedTuple):
    """What a member tells the leader of its group."""

    topics: Sequence[str]
    """What it subscribes to; topics that do not exist are passed over."""
    owned: Sequence[TopicPartition] = ()
    """What it holds from the assignment of `generation`."""
    generation: int = UNKNOWN_GENERATION
    """-1 when it does not say."""
    instance_id: str | None = None
    """group.instance.id: keeps its place in the order of members when it comes back under another member id."""
    rack: str | None = None
    """client.rack; None or empty where there is none."""


Members = Mapping[str, Member]
"""By member id."""

Topics = Mapping[str, Sequence[frozenset[str]]]
"""For each topic that exists the racks of every partition's replicas, by partition number; empty sets where no rack is known."""

Assignment = dict[str, list[TopicPartition]]
"""For every member, the partitions that it gets."""


def in_order(members: Members) -> list[str]:
    """Member ids as ranges and rounds go over them: static members first, by instance id, then the others by member id."""
    return sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (instance_id is None, member_id if instance_id is None else instance_id)


def needs_racks(member_racks: Collection[str], partitions: Iterable[frozenset[str]]) -> bool:
    """Whether racks can make a difference (KIP-881): some member has one that some replica has, and not every partition has replicas
    on all of them.
    """
    if not member_racks:
        return False
    each = list(partitions)
    everywhere = frozenset[str]().union(*each)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in each)
