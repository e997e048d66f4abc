"""Uniform assignment for members with different subscriptions (UniformHeterogeneousAssignmentBuilder).

1. Each member keeps its partitions of the topics to which it still subscribes.
2. Free partitions go to the least loaded subscribers, topics with many partitions for each subscriber first.
3. Topic by topic, partitions move from the most to the least loaded subscriber while their loads differ by two or more. This step ends when
   a whole round over the topics changes nothing, or after 16 rounds. Then each topic is as balanced as its subscribers' other partitions
   permit.
"""

from __future__ import annotations

from uuid import UUID

from odradek.assignment.spec import GroupSpec, Partitions, partition_count, topic_order

_MOST_ROUNDS = 16
_NOBODY = -1


def assign_heterogeneous(spec: GroupSpec) -> dict[str, Partitions]:
    """See `spec.Assignor`."""
    return _Assignment(spec).solve()


class _Assignment:
    """Assignment in progress. Members are numbered in the order of their ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self.member_ids = sorted(spec.members)
        self.subscribers: dict[UUID, list[int]] = {}
        for index, member_id in enumerate(self.member_ids):
            for topic_id in spec.members[member_id].topics:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.owners = {topic_id: [_NOBODY] * partition_count(spec, topic_id) for topic_id in self.subscribers}
        self.sizes = [0] * len(self.member_ids)
        for index, member_id in enumerate(self.member_ids):
            member = spec.members[member_id]
            for topic_id, partitions in member.assignment.items():
                if topic_id in member.topics:
                    owners = self.owners[topic_id]
                    kept = [partition for partition in partitions if partition < len(owners)]
                    for partition in kept:
                        owners[partition] = index
                    self.sizes[index] += len(kept)
        self.topics = sorted(self.subscribers, key=self._topic_order)

    def _topic_order(self, topic_id: UUID) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self.subscribers[topic_id])
        return (-len(self.owners[topic_id]) / subscribers, subscribers, topic_order(topic_id))

    def solve(self) -> dict[str, Partitions]:
        if not self.topics:
            return {}
        self._assign_free()
        self._balance()
        found: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in self.member_ids}
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                found[self.member_ids[owner]].setdefault(topic_id, set()).add(partition)
        return {member_id: {topic: frozenset(partitions) for topic, partitions in owned.items()} for member_id, owned in found.items()}

    def move(self, topic_id: UUID, partition: int, to: int) -> None:
        owners = self.owners[topic_id]
        if owners[partition] != _NOBODY:
            self.sizes[owners[partition]] -= 1
        owners[partition] = to
        self.sizes[to] += 1

    def _assign_free(self) -> None:
        for topic_id in self.topics:
            free = [partition for partition, owner in enumerate(self.owners[topic_id]) if owner == _NOBODY]
            if not free:
                continue
            load = _Load(self.sizes, self.subscribers[topic_id])
            for partition in free:
                self.move(topic_id, partition, load.least())

    def _balance(self) -> None:
        topics = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) > 1]
        last_changed = -1
        for _ in range(_MOST_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) > 0 or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: UUID) -> int:
        """Move partitions of one topic; return the number of moves."""
        load = _Load(self.sizes, self.subscribers[topic_id])
        if load.imbalance <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not load.is_balanced:
            most = load.most()
            while most is not None and not owned.get(most):
                load.exclude_most()
                most = load.most()
            if most is None:
                break
            partition = owned[most].pop()
            least = load.least()
            if load.is_balanced:
                break
            self.move(topic_id, partition, least)
            moved += 1
        return moved


class _Load:
    """Subscribers of a topic sorted by their load, the number of their partitions. `least` returns them from the front, `most` from the
    back.

    Each end has a range of members with the same load. `least` and `most` return the members of their range one after the other; after the
    last one, the next members join the range. So each member's size is read only once, and stays correct while partitions move between the
    ends.
    """

    __slots__ = ("_high", "_high_end", "_high_next", "_high_start", "_low", "_low_end", "_low_next", "_members", "_sizes", "imbalance")

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self._sizes = sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._members[0]], sizes[self._members[-1]]
        self.imbalance = most - least
        self._low = least - 1
        self._low_end = self._low_next = 0
        self._high = most + 1
        self._high_start = self._high_end = len(self._members)
        self._high_next = len(self._members) - 1

    @property
    def is_balanced(self) -> bool:
        return self._high - self._low <= 1

    def least(self) -> int:
        """Return the next least loaded member; the caller gives it one more partition."""
        members = self._members
        if self._low_next >= self._low_end:
            self._low += 1
            while self._low_end < len(members) and self._sizes[members[self._low_end]] == self._low:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return members[self._low_next - 1]

    def most(self) -> int | None:
        """Return the next most loaded member, which loses a partition; None when all members are excluded."""
        members = self._members
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high = self._sizes[members[self._high_start - 1]]
            else:
                self._high -= 1
            while self._high_start > 0 and self._sizes[members[self._high_start - 1]] == self._high:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return members[self._high_next + 1]

    def exclude_most(self) -> None:
        """Exclude the last member that `most` returned, which has no partition of the topic left."""
        members, index = self._members, self._high_next + 1
        self._high_end -= 1
        members[index], members[self._high_end] = members[self._high_end], members[index]
