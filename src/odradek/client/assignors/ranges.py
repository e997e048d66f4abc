"""Range assignor: each topic's partitions in ranges, in the order of the members (org.apache.kafka.clients.consumer.RangeAssignor).

The numbers of partitions of one topic differ by at most one among members. Where racks matter, a member first gets partitions with a
replica on its rack, within its share. Topics with the same members and number of partitions stay aligned: a member has the same partition
numbers of each of them (KIP-881).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.base.ids import TopicPartition
from odradek.client.assignors.spec import Assignment, Members, Topics, in_order, needs_racks


class _Topic:
    """State of one topic during the assignment."""

    __slots__ = ("_extra", "_share", "_taken", "members", "name", "needs_racks", "racks", "unassigned")

    def __init__(self, name: str, racks: Sequence[frozenset[str]], members: Mapping[str, str | None]) -> None:
        """Create the state; `members` are the topic's subscribers in order, with their racks."""
        self.name = name
        self.members = members
        self.unassigned = dict.fromkeys(range(len(racks)))
        self.racks = racks
        self._share, self._extra = divmod(len(racks), len(members))
        self._taken = dict.fromkeys(members, 0)
        self.needs_racks = needs_racks([rack for rack in members.values() if rack is not None], racks)

    @property
    def has_racks(self) -> bool:
        """Return whether any member has a rack; topics are aligned only then."""
        return any(rack is not None for rack in self.members.values())

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member may get."""
        return max(0, self._share + (self._extra > 0) - self._taken[member_id])

    def is_near(self, member_id: str, partition: int) -> bool:
        rack = self.members[member_id]
        return rack is None or rack in self.racks[partition]

    def take(self, member_id: str, partitions: Sequence[int]) -> None:
        self._taken[member_id] += len(partitions)
        if self._taken[member_id] > self._share:
            self._extra -= 1
        for partition in partitions:
            del self.unassigned[partition]


def assign(topics: Topics, members: Members) -> Assignment:
    """Return the partitions of each member, sorted."""
    assignment: Assignment = {member_id: [] for member_id in members}
    order = in_order(members)
    states: list[_Topic] = []
    for name, racks in topics.items():
        subscribed = {member_id: members[member_id].rack or None for member_id in order if name in members[member_id].topics}
        if racks and subscribed:
            states.append(_Topic(name, racks, subscribed))
    if any(state.needs_racks for state in states):
        for alike in _alike(states):
            if len(alike) > 1 and alike[0].has_racks:
                _assign_aligned(alike, assignment)
            elif len(alike) == 1 and alike[0].needs_racks:
                _assign_ranges(alike[0], alike[0].is_near, assignment)
    for state in states:
        _assign_ranges(state, None, assignment)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _alike(states: Sequence[_Topic]) -> list[list[_Topic]]:
    """Group topics with the same subscribers and, if members have racks, the same number of partitions."""
    groups: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Topic]] = {}
    for state in states:
        key = (frozenset(state.members.items()), len(state.racks) if state.has_racks else 0)
        groups.setdefault(key, []).append(state)
    return list(groups.values())


def _assign_ranges(topic: _Topic, may_have: Callable[[str, int], bool] | None, assignment: Assignment) -> None:
    for member_id in topic.members:
        if not topic.unassigned:
            return
        taken = [partition for partition in topic.unassigned if may_have is None or may_have(member_id, partition)][: topic.room(member_id)]
        if taken:
            _give(topic, member_id, taken, assignment)


def _assign_aligned(topics: Sequence[_Topic], assignment: Assignment) -> None:
    """Assign each partition number of all topics to the first member with a replica of each on its rack, and below its share."""
    remaining = dict.fromkeys(topics[0].members)
    for partition in range(len(topics[0].racks)):
        near = (each for each in remaining if all(topic.is_near(each, partition) and topic.room(each) for topic in topics))
        member_id = next(near, None)
        if member_id is None:
            continue
        for topic in topics:
            _give(topic, member_id, [partition], assignment)
        if not any(topic.room(member_id) for topic in topics):
            del remaining[member_id]
            if not remaining:
                return


def _give(topic: _Topic, member_id: str, partitions: Sequence[int], assignment: Assignment) -> None:
    assignment[member_id] += [TopicPartition(topic.name, partition) for partition in partitions]
    topic.take(member_id, partitions)
