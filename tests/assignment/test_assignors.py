"""The assignors: complete, balanced, sticky, and the same every time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from odradek.assignment.ranges import assign_range
from odradek.assignment.registry import ASSIGNORS
from odradek.assignment.spec import Assignor, AssignorError, GroupSpec, MemberSpec, Partitions
from odradek.assignment.uniform import assign_uniform
from tests.assignment.support import random_spec, reassigned, topic

SEEDS = range(120)


def sizes(assigned: Mapping[str, Partitions], spec: GroupSpec) -> dict[str, int]:
    return {member: sum(len(partitions) for partitions in assigned.get(member, {}).values()) for member in spec.members}


def owners(assigned: Mapping[str, Partitions]) -> dict[tuple[UUID, int], str]:
    found: dict[tuple[UUID, int], str] = {}
    for member, topics in assigned.items():
        for topic_id, partitions in topics.items():
            for partition in partitions:
                assert (topic_id, partition) not in found, "given to two members"
                found[(topic_id, partition)] = member
    return found


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_partition_goes_to_one_subscriber(assign: Assignor, seed: int) -> None:
    spec = random_spec(random.Random(seed))
    assigned = assign(spec)
    subscribed = {topic_id for member in spec.members.values() for topic_id in member.topics}
    found = owners(assigned)
    assert set(found) == {(topic_id, partition) for topic_id in subscribed for partition in range(spec.partition_counts[topic_id])}
    assert all(topic_id in spec.members[member].topics for (topic_id, _), member in found.items())
    assert all(partitions for topics in assigned.values() for partitions in topics.values()), "no empty topics"


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_the_arguments_does_not_matter(assign: Assignor, seed: int) -> None:
    rng = random.Random(seed)
    spec = random_spec(rng)
    members = list(spec.members.items())
    rng.shuffle(members)
    assert assign(spec) == assign(spec._replace(members=dict(members)))


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_is_balanced_where_all_subscribe_to_the_same(seed: int) -> None:
    spec = random_spec(random.Random(seed), homogeneous=True)
    loads = sizes(assign_uniform(spec), spec).values()
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_moves_no_more_than_it_must_where_all_subscribe_to_the_same(seed: int) -> None:
    rng = random.Random(seed)
    before = random_spec(rng, homogeneous=True)
    spec = reassigned(before, assign_uniform(before), rng)
    total = sum(spec.partition_counts[topic_id] for topic_id in next(iter(spec.members.values())).topics)
    share, extras = divmod(total, len(spec.members))
    held = sorted(sizes({member: each.assignment for member, each in spec.members.items()}, spec).values(), reverse=True)
    # The most that all of them together can keep: those with the most get the extra ones.
    most = sum(min(size, share + (index < extras)) for index, size in enumerate(held))
    kept = owners(assign_uniform(spec))
    formerly = owners({member: each.assignment for member, each in spec.members.items()})
    still = {key for key, member in formerly.items() if kept.get(key) == member}
    # Who the extra ones go to is decided member by member, so that some of them may miss those who could use them.
    assert most - extras <= len(still) <= most


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_is_as_balanced_as_subscriptions_permit(seed: int) -> None:
    spec = random_spec(random.Random(seed), homogeneous=False)
    assigned = assign_uniform(spec)
    loads = sizes(assigned, spec)
    for (topic_id, _), member in owners(assigned).items():
        for other, each in spec.members.items():
            if topic_id in each.topics:
                assert loads[member] - loads[other] <= 1, "a partition could move to a less loaded member"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("homogeneous", [True, False])
def test_uniform_leaves_alone_what_is_balanced(seed: int, homogeneous: bool) -> None:
    spec = random_spec(random.Random(seed), homogeneous=homogeneous)
    first = assign_uniform(spec)
    again = {member: each._replace(assignment=first.get(member, {})) for member, each in spec.members.items()}
    assert assign_uniform(spec._replace(members=again)) == first


def test_ranges_are_the_same_in_all_topics_and_static_members_come_first() -> None:
    topics = frozenset({topic(1), topic(2)})
    members = {"a": MemberSpec(topics), "b": MemberSpec(topics), "c": MemberSpec(topics, instance_id="x")}
    assigned = assign_range(GroupSpec(members, {topic(1): 4, topic(2): 2}, homogeneous=True))
    assert assigned == {
        "c": {topic(1): frozenset({0, 1}), topic(2): frozenset({0})},
        "a": {topic(1): frozenset({2}), topic(2): frozenset({1})},
        "b": {topic(1): frozenset({3})},
    }


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("homogeneous", [True, False])
def test_topics_that_are_not_there(assign: Assignor, homogeneous: bool) -> None:
    with pytest.raises(AssignorError, match="does not exist"):
        assign(GroupSpec({"a": MemberSpec(frozenset({topic(1)}))}, {}, homogeneous))


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_nobody_and_nothing(assign: Assignor) -> None:
    assert assign(GroupSpec({}, {}, homogeneous=True)) == {}
    assert not any(assign(GroupSpec({"a": MemberSpec(frozenset())}, {}, homogeneous=True)).values())


def test_uniform_gives_the_extra_partition_to_who_has_it() -> None:
    topics = frozenset({topic(1)})
    owned = {"a": {0}, "b": {1}, "c": {2, 3}}
    members = {member: MemberSpec(topics, {topic(1): frozenset(partitions)}) for member, partitions in owned.items()}
    assigned = assign_uniform(GroupSpec(members, {topic(1): 4}, homogeneous=True))
    assert {member: set(partitions[topic(1)]) for member, partitions in assigned.items()} == owned


def test_topics_are_in_the_order_of_java() -> None:
    """There the halves of an id are signed."""
    first, second = UUID(int=1 << 127), UUID(int=1)
    members = {member: MemberSpec(frozenset({first, second})) for member in "ab"}
    assigned = assign_uniform(GroupSpec(members, {first: 1, second: 1}, homogeneous=True))
    assert assigned == {"a": {first: frozenset({0})}, "b": {second: frozenset({0})}}
