"""Random classic groups."""

from __future__ import annotations

import random
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.assignors.protocol import Subscription
from odradek.client.assignors.registry import Assignor
from odradek.client.assignors.spec import Assignment, Topics

IDS = "abcdefghijklmno"
"""In the order in which Java's hash tables have them."""


class Group(NamedTuple):
    """What the leader of a group knows."""

    topics: Topics
    said: dict[str, Subscription]
    instance_ids: dict[str, str | None]


def random_group(rng: random.Random, *, alike: bool | None = None, racks: bool | None = None) -> Group:
    """Members that own nothing yet. `alike`: all subscribe to the same topics."""
    racks = rng.random() < 0.4 if racks is None else racks
    alike = rng.random() < 0.5 if alike is None else alike
    names = "xyz"[: rng.randint(1, 3)]
    where = [frozenset(rng.sample(names, rng.randint(1, len(names)))) if racks else frozenset[str]() for _ in range(40)]
    most = rng.choice([1, 4, 9])
    topics = {f"t{number}": [rng.choice(where) for _ in range(rng.randint(1, most))] for number in range(rng.randint(1, 5))}
    said: dict[str, Subscription] = {}
    instance_ids: dict[str, str | None] = {}
    for member_id in sorted(rng.sample(IDS, rng.randint(1, 8))):
        fewest = 0 if rng.random() < 0.1 else 1
        wanted = sorted(topics) if alike else sorted(rng.sample(sorted(topics), rng.randint(min(fewest, len(topics)), len(topics))))
        if rng.random() < 0.1:
            wanted.append("gone")
        said[member_id] = Subscription(wanted, rack=rng.choice(names) if racks and rng.random() < 0.9 else None)
        instance_ids[member_id] = f"i{rng.randint(0, 999)}" if rng.random() < 0.3 else None
    return Group(topics, said, instance_ids)


def assigned(assignor: Assignor, group: Group) -> Assignment:
    """What the leader would say."""
    return assignor.assign(group.topics, assignor.members(group.said, group.instance_ids))


def reassigned(assignor: Assignor, group: Group, held: Assignment, generation: int, rng: random.Random) -> Group:
    """The group that holds this, after members have gone and come, and a topic has grown or gone."""
    topics = dict(group.topics)
    changed = rng.choice(sorted(topics))
    if rng.random() < 0.3:
        topics[changed] = [*topics[changed], *topics[changed]]
    said: dict[str, Subscription] = {}
    for member_id, before in group.said.items():
        if rng.random() < 0.2 and len(group.said) > 1:
            continue
        late = rng.random() < 0.1
        owned = sorted(held[member_id])
        since = generation - 1 if late else generation
        said[member_id] = before._replace(
            owned=() if assignor.name == "sticky" else owned, generation=since, user_data=assignor.user_data(owned, since)
        )
    some = next(iter(group.said.values()))
    newcomers = [each for each in IDS if each not in group.said]
    for member_id in rng.sample(newcomers, min(rng.randint(0, 3), len(newcomers))):
        said[member_id] = some._replace(owned=(), generation=-1, user_data=assignor.user_data((), -1))
    if not said:
        said = dict(group.said)
    return Group(topics, {member_id: said[member_id] for member_id in sorted(said)}, dict.fromkeys(said))


def holders(assignment: Assignment) -> dict[TopicPartition, str]:
    """Who has what; AssertionError when two have the same."""
    found: dict[TopicPartition, str] = {}
    for member_id, partitions in assignment.items():
        for partition in partitions:
            assert partition not in found, f"{partition} was given to {found[partition]} and {member_id}"
            found[partition] = member_id
    return found
