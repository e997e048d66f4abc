"""Uniform assignment: the members' numbers of partitions differ by at most one, and each keeps as many former partitions as possible.

(UniformAssignor, UniformHomogeneousAssignmentBuilder; see `odradek.assignment.heterogeneous` for members with different subscriptions)
"""

from __future__ import annotations

from uuid import UUID

from odradek.assignment.heterogeneous import assign_heterogeneous
from odradek.assignment.spec import GroupSpec, MemberSpec, Partitions, partition_count, topic_order

NAME = "uniform"


def assign_uniform(spec: GroupSpec) -> dict[str, Partitions]:
    """See `spec.Assignor`."""
    if not spec.members:
        return {}
    return _assign_homogeneous(spec) if spec.homogeneous else assign_heterogeneous(spec)


def _assign_homogeneous(spec: GroupSpec) -> dict[str, Partitions]:
    """Return the assignment of members with equal subscriptions.

    A member's share is the number of partitions divided by the number of members, rounded down. The remainder is given as one extra
    partition each, first to members that already have that many, then to the last members. A member with more than its share returns its
    last partitions; free partitions go to members with less.
    """
    members = sorted(spec.members.items())
    topics = sorted(members[0][1].topics, key=topic_order)
    if not topics:
        return {}
    free, total = _free(spec, topics)
    share, extras = divmod(total, len(members))
    found: dict[str, dict[UUID, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(members):
        may_have_extra = extras > 0
        kept, given_back = _keep(member, topics, share + may_have_extra)
        found[member_id] = kept
        free += given_back
        room = share + may_have_extra - sum(len(partitions) for partitions in kept.values())
        if room > 0 and may_have_extra and len(members) - index > extras:
            # More members than extras are left, and one of them may need an extra to keep its partitions.
            room -= 1
            may_have_extra = False
        if room > 0:
            unfilled.append((member_id, room))
        if may_have_extra:
            extras -= 1
    _fill(found, unfilled, free)
    return {member_id: {topic: frozenset(partitions) for topic, partitions in kept.items()} for member_id, kept in found.items()}


def _free(spec: GroupSpec, topics: list[UUID]) -> tuple[list[tuple[UUID, int]], int]:
    """Return the partitions that no member has, and the number of all partitions."""
    owned: dict[UUID, set[int]] = {}
    for member in spec.members.values():
        for topic_id, partitions in member.assignment.items():
            owned.setdefault(topic_id, set()).update(partitions)
    free: list[tuple[UUID, int]] = []
    total = 0
    for topic_id in topics:
        count = partition_count(spec, topic_id)
        total += count
        taken = owned.get(topic_id, ())
        free += [(topic_id, partition) for partition in range(count) if partition not in taken]
    return free, total


def _keep(member: MemberSpec, topics: list[UUID], quota: int) -> tuple[dict[UUID, set[int]], list[tuple[UUID, int]]]:
    """Return the former partitions that a member keeps, and those that it returns."""
    kept: dict[UUID, set[int]] = {}
    given_back: list[tuple[UUID, int]] = []
    for topic_id in topics:
        partitions = sorted(member.assignment.get(topic_id, ()))
        if partitions[:quota]:
            kept[topic_id] = set(partitions[:quota])
        given_back += [(topic_id, partition) for partition in partitions[quota:]]
        quota -= min(quota, len(partitions))
    return kept, given_back


def _fill(found: dict[str, dict[UUID, set[int]]], unfilled: list[tuple[str, int]], free: list[tuple[UUID, int]]) -> None:
    position = 0
    for member_id, room in unfilled:
        for topic_id, partition in free[position : position + room]:
            found[member_id].setdefault(topic_id, set()).add(partition)
        position += room
