"""Random consumer groups for tests of assignors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

from odradek.assignment.spec import GroupSpec, MemberSpec, Partitions


def topic(number: int) -> UUID:
    """Return a topic id with Java hash code `number`, so that a small Java hash table iterates over the ids in this order."""
    return UUID(int=number)


def random_spec(rng: random.Random, *, homogeneous: bool | None = None) -> GroupSpec:
    """Return a random group. Its members may have partitions from an earlier assignment: disjoint, incomplete, unbalanced."""
    counts = {topic(number): rng.randint(1, 8) for number in range(1, rng.randint(2, 6))}
    homogeneous = rng.random() < 0.5 if homogeneous is None else homogeneous
    ids = sorted(f"m{number}" for number in rng.sample(range(10, 99), rng.randint(1, 7)))
    free = [(topic_id, partition) for topic_id, count in counts.items() for partition in range(count)]
    rng.shuffle(free)
    members: dict[str, MemberSpec] = {}
    for member_id in ids:
        topics = frozenset(counts) if homogeneous else frozenset(rng.sample(sorted(counts), rng.randint(0, len(counts))))
        mine: dict[UUID, set[int]] = {}
        for _ in range(rng.choice([0, 0, 1, 3, 8])):
            if free:
                topic_id, partition = free.pop()
                mine.setdefault(topic_id, set()).add(partition)
        instance = f"i{rng.randint(0, 999)}" if rng.random() < 0.3 else None
        members[member_id] = MemberSpec(topics, {each: frozenset(mine[each]) for each in sorted(mine)}, instance)
    return GroupSpec(members, counts, homogeneous)


def reassigned(spec: GroupSpec, assigned: Mapping[str, Partitions], rng: random.Random) -> GroupSpec:
    """Return the group with the given assignment, after some members have left and new members have joined."""
    members = {member: each._replace(assignment=assigned.get(member, {})) for member, each in spec.members.items()}
    topics = next(iter(spec.members.values())).topics
    for member in list(members):
        if len(members) > 1 and rng.random() < 0.3:
            del members[member]
    for number in range(rng.randint(0, 3)):
        members[f"n{number}"] = MemberSpec(topics)
    return spec._replace(members=members)
