"""Sticky assignor: as even as possible, with as few moved partitions as possible (AbstractStickyAssignor; KIP-54, KIP-341, KIP-881).

If all members subscribe to the same topics, one pass is enough (`_Even`): each member keeps its partitions up to its share, and the rest
are dealt round robin. Otherwise (`_Balanced`) owned partitions stay and free ones go to the member with the fewest. Then partitions move
from members with more to members with fewer, until no move makes the assignment more even.

Where racks matter, a member keeps and gets first the partitions with a replica on its rack. Evenness comes before nearness.

A partition that two members claim belongs to the claim of the later generation. With equal generations neither member owns the partition.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.assignors.spec import Assignment, Member, Members, Topics, needs_racks

Owned = dict[str, list[TopicPartition]]
_Change = Callable[[list[TopicPartition]], None]


class Sticky(NamedTuple):
    """Assignment, and those of its partitions that another member has to give up first, with their new owners."""

    assignment: Assignment
    moved: Mapping[TopicPartition, str]


class _Racks:
    """Racks of members and partitions. Without racks every member is near to every partition."""

    def __init__(self, topics: Topics, members: Members) -> None:
        ids = sorted(members)
        racks = {member_id: rack for member_id in ids if (rack := members[member_id].rack)}
        partitions = [(TopicPartition(name, number), each) for name, of in topics.items() for number, each in enumerate(of)]
        useful = needs_racks(racks.values(), [each for _, each in partitions])
        self.of_member: Mapping[str, str] = racks if useful else {}
        self._of_partition = dict(partitions) if useful else {}

    def are_far(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack on which the partition has no replica."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self._of_partition[partition]

    def share(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack on which the partition has a replica."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack in self._of_partition[partition]

    def fewest_near_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions sorted by the number of members near to them, fewest first."""
        if not self.of_member:
            return partitions
        near = {partition: sum(rack in self._of_partition[partition] for rack in self.of_member.values()) for partition in partitions}
        return sorted(partitions, key=near.__getitem__)


def assign(topics: Topics, members: Members) -> Sticky:
    """Assign all partitions. Owned partitions that do not exist are ignored."""
    subscribed = {name for member in members.values() for name in member.topics}
    topics = {name: racks for name, racks in topics.items() if name in subscribed}
    owned, disputed = _claims(topics, members)
    racks = _Racks(topics, members)
    subscriptions = [frozenset(member.topics) for member in members.values()]
    if all(each == subscriptions[0] for each in subscriptions):
        return _Even(topics, owned, disputed, racks).result()
    assignment = _Balanced(topics, members, owned, racks).result()
    return Sticky(assignment, moved_between(assignment, {member_id: members[member_id].owned for member_id in members}))


def moved_between(assignment: Assignment, owned: Mapping[str, Collection[TopicPartition]]) -> dict[TopicPartition, str]:
    """Return the partitions that move from one member to another, with their new owners."""
    before = {(member_id, each) for member_id, partitions in owned.items() for each in partitions}
    after = {(member_id, each) for member_id, partitions in assignment.items() for each in partitions}
    lost = {each for _, each in before - after}
    return {each: member_id for member_id, each in sorted(after - before) if each in lost}


def _claims(topics: Topics, members: Members) -> tuple[Owned, set[TopicPartition]]:
    """Return the partitions of each member, and the disputed ones: two members claim them in the same generation, so neither owns them."""
    owned: Owned = {}
    disputed: set[TopicPartition] = set()
    owners: dict[TopicPartition, str] = {}
    for member_id in sorted(members):
        member = members[member_id]
        mine = owned[member_id] = []
        for partition in dict.fromkeys(member.owned):
            if not 0 <= partition.partition < len(topics.get(partition.topic, ())):
                continue
            rival = owners.get(partition)
            if rival is not None:
                if member.generation < members[rival].generation:
                    continue
                if partition in owned[rival]:
                    owned[rival].remove(partition)
                if member.generation == members[rival].generation:
                    disputed.add(partition)
                    owners[partition] = member_id
                    continue
                disputed.discard(partition)
            mine.append(partition)
            owners[partition] = member_id
    return owned, disputed


class _Even:
    """Assignment when all members subscribe to the same topics. A share is `least` or `most`, which differ by at most one.

    The number of members with `most` is the remainder of the partitions divided by the members.
    """

    def __init__(self, topics: Topics, owned: Owned, disputed: set[TopicPartition], racks: _Racks) -> None:
        self._owned = owned
        self._disputed = disputed
        self._racks = racks
        self._all = [TopicPartition(name, number) for name in sorted(topics) for number in range(len(topics[name]))]
        self._least, self._with_most = divmod(len(self._all), len(owned))
        self._most = self._least + (self._with_most > 0)
        self._assignment: Assignment = {member_id: [] for member_id in owned}
        self._revoked: dict[TopicPartition, str] = {}
        """Owners of partitions beyond the owner's share, or without a replica on its rack."""
        self._below: list[str] = []
        """Members that have fewer than `least` partitions."""
        self._at_least: deque[str] = deque()
        """Members that have `least` partitions and may get one more."""
        self._full = 0
        """Number of members that have `most` partitions."""
        self._moved: dict[TopicPartition, str] = {}

    def result(self) -> Sticky:
        self._keep_owned()
        taken = {partition for partitions in self._assignment.values() for partition in partitions}
        free = self._racks.fewest_near_first([partition for partition in self._all if partition not in taken])
        if self._racks.of_member:
            free = self._deal_near(free)
        self._deal(free)
        return Sticky(self._assignment, self._moved)

    def _keep_owned(self) -> None:
        for member_id, claimed in self._owned.items():
            kept = [each for each in claimed if each not in self._disputed and not self._racks.are_far(member_id, each)]
            kept.sort(key=lambda each: (each.partition, each.topic))
            if len(kept) < self._least:
                self._below.append(member_id)
                share = len(kept)
            elif len(kept) >= self._most and self._full < self._with_most:
                self._fill_up()
                share = self._most
            else:
                if self._full < self._with_most:
                    self._at_least.append(member_id)
                share = self._least
            self._assignment[member_id] += kept[:share]
            # Include partitions far from their owner, which Kafka forgets: with cooperative members Kafka assigns them before the owner
            # gives them up.
            self._revoked.update(dict.fromkeys(set(claimed).difference(kept[:share]), member_id))

    def _fill_up(self) -> None:
        """Count one more member with `most` partitions. When the allowed number is reached, all others are limited to `least`."""
        self._full += 1
        if self._full == self._with_most:
            self._at_least.clear()

    def _deal_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Assign free partitions to members on their racks, as far as shares allow. Return the partitions that are left."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            member_id: str | None = None
            place = self._next_near(partition, self._below, turn)
            if place is not None:
                member_id = self._below[place]
                if len(self._assignment[member_id]) + 1 >= self._least:
                    del self._below[place]
                    if self._full < self._with_most:
                        self._at_least.append(member_id)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
            else:
                place = self._next_near(partition, self._at_least, 0)
                if place is not None:
                    member_id = self._at_least[place]
                    del self._at_least[place]
                    self._fill_up()
            if member_id is None:
                left.append(partition)
            else:
                self._give(partition, member_id)
        return left

    def _next_near(self, partition: TopicPartition, member_ids: Sequence[str], first: int) -> int | None:
        for step in range(len(member_ids)):
            place = (first + step) % len(member_ids)
            if self._racks.share(member_ids[place], partition):
                return place
        return None

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        """Deal round robin to members below the minimum share, then to those that may hold one more."""
        turn = 0
        for partition in free:
            if self._below:
                turn %= len(self._below)
                member_id = self._below[turn]
                if self._give(partition, member_id) == self._least:
                    del self._below[turn]
                    self._at_least.append(member_id)
                else:
                    turn += 1
            else:
                self._give(partition, self._at_least.popleft())

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        self._assignment[member_id].append(partition)
        if partition in self._disputed or self._revoked.get(partition, member_id) != member_id:
            self._moved[partition] = member_id
        return len(self._assignment[member_id])


class _Balanced:
    """Assignment when members subscribe to different topics."""

    def __init__(self, topics: Topics, members: Members, owned: Owned, racks: _Racks) -> None:
        self._topics = topics
        self._members = members
        self._racks = racks
        ids = sorted(members)
        self._wanted = {member_id: frozenset(name for name in members[member_id].topics if name in topics) for member_id in ids}
        self._subscribers = {name: [member_id for member_id in ids if name in self._wanted[member_id]] for name in topics}
        self._assignment: Assignment = {member_id: [] for member_id in ids}
        self._holders: dict[TopicPartition, str] = {}
        self._in_order: list[tuple[int, str]] = []
        """Sizes and ids of the members that take part in moves, fewest partitions first."""
        self._former = _former_holders(members)
        self._moves = _Moves()
        self._revokes = False
        """True if a member loses a partition in any case, so that all partitions may move."""
        for member_id in ids:
            for partition in owned[member_id]:
                if partition.topic not in self._wanted[member_id] or racks.are_far(member_id, partition):
                    self._revokes = True
                else:
                    self._assignment[member_id].append(partition)
                    self._holders[partition] = member_id

    def result(self) -> Assignment:
        self._in_order = sorted((len(partitions), member_id) for member_id, partitions in self._assignment.items())
        names = sorted(self._topics, key=lambda name: (len(self._subscribers[name]), name))
        every = [TopicPartition(name, number) for name in names for number in range(len(self._topics[name]))]
        free = [partition for partition in every if partition not in self._holders]
        self._hand_out(free)
        self._leave_out_the_fixed()
        movable = [partition for partition in every if len(self._subscribers[partition.topic]) > 1]
        if not self._revokes:
            self._even_out([partition for partition in free if len(self._subscribers[partition.topic]) > 1])
        self._even_out(movable)
        return self._assignment

    def _hand_out(self, free: Sequence[TopicPartition]) -> None:
        """Give each free partition to its subscriber with the fewest partitions. Where racks matter, near subscribers come first."""
        left = free
        if self._racks.of_member:
            left = [partition for partition in free if not self._give_to_least(partition, near=True)]
        for partition in left:
            self._give_to_least(partition, near=False)

    def _give_to_least(self, partition: TopicPartition, *, near: bool) -> bool:
        for _, member_id in self._in_order:
            if partition.topic in self._wanted[member_id] and not (near and self._racks.are_far(member_id, partition)):
                self._resize(member_id, lambda mine: mine.append(partition))
                self._holders[partition] = member_id
                return True
        return False

    def _resize(self, member_id: str, change: _Change) -> None:
        mine = self._assignment[member_id]
        self._in_order.remove((len(mine), member_id))
        change(mine)
        insort(self._in_order, (len(mine), member_id))

    def _most(self, member_id: str) -> int:
        """Return the number of partitions of all topics that the member subscribes to."""
        return sum(len(self._topics[name]) for name in self._wanted[member_id])

    def _leave_out_the_fixed(self) -> None:
        """Leave out of moves each member that has all partitions that it subscribes to, none of which has another subscriber."""
        for member_id, mine in self._assignment.items():
            if len(mine) >= self._most(member_id) and all(len(self._subscribers[each.topic]) < 2 for each in mine):
                self._in_order.remove((len(mine), member_id))

    def _is_even(self) -> bool:
        if not self._in_order or self._in_order[0][0] >= self._in_order[-1][0] - 1:
            return True
        for size, member_id in self._in_order:
            if size == self._most(member_id):
                continue
            for name in self._wanted[member_id]:
                for number in range(len(self._topics[name])):
                    holder = self._holders[TopicPartition(name, number)]
                    if holder != member_id and size + 1 < len(self._assignment[holder]):
                        return False
        return True

    def _even_out(self, movable: Sequence[TopicPartition]) -> None:
        """Move partitions to members with at least two fewer, until nothing moves."""
        again = True
        while again:
            again = False
            for partition in movable:
                if self._is_even():
                    break
                target = self._better_holder(partition)
                if target is not None:
                    self._move(partition, target)
                    again = True

    def _better_holder(self, partition: TopicPartition) -> str | None:
        holder = self._holders[partition]
        size = len(self._assignment[holder])
        former = self._former.get(partition)
        if former is not None and partition.topic in self._wanted[former] and size > len(self._assignment[former]) + 1:
            return former
        if any(size > len(self._assignment[other]) + 1 for other in self._subscribers[partition.topic]):
            return next(member_id for _, member_id in self._in_order if partition.topic in self._wanted[member_id])
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        back = self._moves.instead_of(partition, self._holders[partition], target)
        if len(self._assignment[self._holders[back]]) > len(self._assignment[target]) + 1:
            # Reverse an earlier move only if that makes the assignment more even: otherwise the loop might not end (as in Kafka).
            partition = back
        holder = self._holders[partition]
        self._moves.note(partition, holder, target)
        self._resize(holder, lambda mine: mine.remove(partition))
        self._resize(target, lambda mine: mine.append(partition))
        self._holders[partition] = target


class _Moves:
    """Moves between members, kept so that two members do not swap partitions of one topic."""

    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._between: dict[tuple[str, str, str], list[TopicPartition]] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition itself, or a partition of its topic that moved the opposite way before and can move back."""
        if partition in self._of_partition:
            source = self._of_partition[partition][0]
        back = self._between.get((partition.topic, target, source))
        return back[0] if back else partition

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._of_partition.pop(partition, None)
        if earlier is not None:
            self._between[partition.topic, *earlier].remove(partition)
            source = earlier[0]
        if source != target:
            self._of_partition[partition] = (source, target)
            self._between.setdefault((partition.topic, source, target), []).append(partition)


def _former_holders(members: Members) -> dict[TopicPartition, str]:
    """Return the former holder of each partition: a member with an older generation, as it has missed rebalances.

    Of several such members the one with the newest generation is returned.
    """
    newest = max((member.generation for member in members.values()), default=-1)
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member_id in sorted(members):
        member: Member = members[member_id]
        if member.generation < newest:
            for partition in member.owned:
                if partition not in former or member.generation > former[partition][0]:
                    former[partition] = (member.generation, member_id)
    return {partition: member_id for partition, (_, member_id) in former.items()}
