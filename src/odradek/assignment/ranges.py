"""Range assignment: each topic is divided into contiguous ranges, one for each subscriber (RangeAssignor).

Members with an instance id come first, ordered by that id; the others follow, ordered by member id. Therefore members get the same
partition numbers in all topics that they share, as joins of co-partitioned topics need. When a topic cannot be divided evenly, the first
members get one partition more. The assignment is not sticky: a range stays with its member only while the order of the members stays the
same.
"""

from __future__ import annotations

from uuid import UUID

from odradek.assignment.spec import GroupSpec, MemberSpec, Partitions, partition_count, topic_order

NAME = "range"


def assign_range(spec: GroupSpec) -> dict[str, Partitions]:
    """See `spec.Assignor`."""
    members = sorted(spec.members.items(), key=_order)
    subscribers: dict[UUID, list[str]] = {}
    if spec.homogeneous and members:
        # All subscriptions are equal, so the first member's topics are those of all members.
        everybody = [member_id for member_id, _ in members]
        subscribers = dict.fromkeys(members[0][1].topics, everybody)
    else:
        for member_id, member in members:
            for topic_id in member.topics:
                subscribers.setdefault(topic_id, []).append(member_id)
    found: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id, _ in members}
    for topic_id in sorted(subscribers, key=topic_order):
        count, takers = partition_count(spec, topic_id), subscribers[topic_id]
        each, extra = divmod(count, len(takers))
        start = 0
        for index, member_id in enumerate(takers):
            end = start + each + (index < extra)
            if start < end:
                found[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _order(entry: tuple[str, MemberSpec]) -> tuple[bool, str, str]:
    member_id, member = entry
    return (member.instance_id is None, member.instance_id or "", member_id)
