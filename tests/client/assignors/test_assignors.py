"""Assignors of classic groups: complete, even, sticky, near, and the same every time."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.assignors import ranges, round_robin, sticky
from odradek.client.assignors.protocol import (
    Assigned,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.assignors.registry import ASSIGNORS, Assignor
from odradek.client.assignors.spec import Assignment, Member, Topics
from tests.client.assignors.support import Group, assigned, holders, random_group, reassigned

SEEDS = range(150)
EVERY = pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def anywhere(**counts: int) -> Topics:
    """Topics without racks."""
    return {name: [frozenset()] * count for name, count in counts.items()}


def changed(assignor: Assignor, seed: int) -> tuple[Group, Assignment]:
    """A group after a change, and what its members held before."""
    rng = random.Random(seed)
    group = random_group(rng)
    held = assigned(assignor, group)
    return reassigned(assignor, group, held, 5, rng), held


def wanted(group: Group) -> set[TopicPartition]:
    subscribed = {name for said in group.said.values() for name in said.topics if name in group.topics}
    return {TopicPartition(name, number) for name in subscribed for number in range(len(group.topics[name]))}


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_every_partition_goes_to_one_subscriber(assignor: Assignor, seed: int) -> None:
    group, _ = changed(assignor, seed)
    found = assigned(assignor, group)
    assert set(found) == set(group.said)
    owner = holders(found)
    missing = wanted(group) - set(owner)
    owned = {partition for said in group.said.values() for partition in said.owned}
    assert missing <= (owned if assignor.cooperative else set())
    assert set(owner) <= wanted(group)
    assert all(partition.topic in group.said[member_id].topics for partition, member_id in owner.items())


@EVERY
@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_members_and_topics_does_not_matter(assignor: Assignor, seed: int) -> None:
    group, _ = changed(assignor, seed)
    rng = random.Random(seed)
    said, topics = list(group.said.items()), list(group.topics.items())
    rng.shuffle(said)
    rng.shuffle(topics)
    other = assigned(assignor, Group(dict(topics), dict(said), group.instance_ids))
    assert {each: sorted(of) for each, of in other.items()} == {each: sorted(of) for each, of in assigned(assignor, group).items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_sticky_is_even_where_all_subscribe_to_the_same(seed: int) -> None:
    rng = random.Random(seed)
    assignor = ASSIGNORS["sticky"]
    group = random_group(rng, alike=True)
    for generation in range(3):
        held = assigned(assignor, group)
        sizes = [len(each) for each in held.values()]
        assert max(sizes) - min(sizes) <= 1
        group = reassigned(assignor, group, held, generation, rng)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_moves_in_a_group_that_has_not_changed(name: str, seed: int) -> None:
    rng = random.Random(seed)
    # With racks, what is far from its member is given away each time, as in Kafka.
    group = random_group(rng, racks=False)
    assignor = ASSIGNORS[name]
    held = assigned(assignor, group)
    said = {
        member_id: before._replace(owned=held[member_id], generation=3, user_data=assignor.user_data(held[member_id], 3))
        for member_id, before in group.said.items()
    }
    again = assigned(assignor, group._replace(said=said))
    assert {each: sorted(of) for each, of in again.items()} == {each: sorted(of) for each, of in held.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_gets_what_another_has_not_given_up(seed: int) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    group, _ = changed(assignor, seed)
    for generation in range(6, 30):
        found = assigned(assignor, group)
        claims = [(said.generation, partition, member_id) for member_id, said in group.said.items() for partition in said.owned]
        owner = {partition: member_id for _, partition, member_id in sorted(claims)}
        for partition, member_id in holders(found).items():
            assert owner.get(partition, member_id) == member_id
        if set(holders(found)) == wanted(group):
            break
        # The next rebalance: all have given up what they had to.
        said = {
            member_id: before._replace(owned=sorted(found[member_id]), generation=generation) for member_id, before in group.said.items()
        }
        group = group._replace(said=said)
    else:
        pytest.fail("some partitions never find an owner")


def test_ranges_follow_the_order_of_instance_ids() -> None:
    members = {"z": Member(["t"], instance_id="1"), "a": Member(["t"], instance_id="2"), "m": Member(["t"])}
    assert ranges.assign(anywhere(t=4), members) == {"z": partitions("t", 0, 1), "a": partitions("t", 2), "m": partitions("t", 3)}


def test_turns_pass_over_those_who_do_not_subscribe() -> None:
    members = {"a": Member(["t", "u"]), "b": Member(["u"]), "c": Member([])}
    found = round_robin.assign(anywhere(t=2, u=3), members)
    assert found == {"a": [*partitions("t", 0, 1), *partitions("u", 1)], "b": partitions("u", 0, 2), "c": []}


def test_ranges_are_near_where_that_leaves_them_even() -> None:
    topics = {"t": [frozenset("y"), frozenset("x"), frozenset("y"), frozenset("x")]}
    members = {"a": Member(["t"], rack="x"), "b": Member(["t"], rack="y")}
    assert ranges.assign(topics, members) == {"a": partitions("t", 1, 3), "b": partitions("t", 0, 2)}


def test_topics_with_as_many_partitions_stay_aligned() -> None:
    topics = {"t": [frozenset("y"), frozenset("x")], "u": [frozenset("y"), frozenset("xy")]}
    members = {"a": Member(["t", "u"], rack="x"), "b": Member(["t", "u"], rack="y")}
    found = ranges.assign(topics, members)
    assert found == {"a": [*partitions("t", 1), *partitions("u", 1)], "b": [*partitions("t", 0), *partitions("u", 0)]}


def test_evenness_comes_before_nearness() -> None:
    topics = {"t": [frozenset("x"), frozenset("x"), frozenset("x"), frozenset("xz")]}
    members = {"a": Member(["t"], rack="x"), "b": Member(["t"], rack="x"), "c": Member(["t"], rack="z")}
    sizes = sorted(len(each) for each in sticky.assign(topics, members).assignment.values())
    assert sizes == [1, 1, 2]


def test_the_claim_of_the_later_generation_counts() -> None:
    members = {
        "a": Member(["t"], owned=partitions("t", 0, 1), generation=4),
        "b": Member(["t"], owned=partitions("t", 0), generation=5),
    }
    found = sticky.assign(anywhere(t=2), members)
    assert found.assignment == {"a": partitions("t", 1), "b": partitions("t", 0)}
    assert not found.moved


def test_what_two_claim_of_one_generation_has_to_be_given_up_by_both() -> None:
    members = {name: Member(["t"], owned=partitions("t", 0), generation=5) for name in "ab"}
    found = sticky.assign(anywhere(t=1), members)
    assert found.moved == {TopicPartition("t", 0): "a"}


def test_partitions_that_are_gone_are_forgotten() -> None:
    members = {name: Member(["t"], owned=partitions("t", 7) if name == "a" else partitions("gone", 0), generation=1) for name in "ab"}
    found = sticky.assign(anywhere(t=2), members)
    assert sorted(holders(found.assignment)) == partitions("t", 0, 1)


def test_a_member_that_missed_a_rebalance_gets_back_what_it_held() -> None:
    # "c" wants another topic too, so that the members are not alike.
    members = {
        "a": Member(["t"], owned=partitions("t", 0, 1, 2, 3), generation=5),
        "b": Member(["t"]),
        "c": Member(["t", "u"], owned=partitions("t", 0), generation=4),
    }
    assert TopicPartition("t", 0) in sticky.assign(anywhere(t=4, u=1), members).assignment["c"]
    forgotten = {**members, "c": Member(["t", "u"])}
    assert TopicPartition("t", 0) in sticky.assign(anywhere(t=4, u=1), forgotten).assignment["b"]


def test_what_moves_back_is_what_came() -> None:
    # "a" gives up a partition of t1 at first, and is to get one in the end: the one that it had.
    mine = [TopicPartition("t1", 2), TopicPartition("t2", 1), *partitions("t0", 1, 0), TopicPartition("t1", 3), TopicPartition("t2", 0)]
    members = {
        "a": Member(["t0", "t1", "t2"], owned=mine, generation=4),
        "b": Member(["t0", "t1", "t2"], generation=5),
        "c": Member(["t0"], generation=4),
    }
    found = sticky.assign(anywhere(t0=2, t1=4, t2=2), members).assignment
    assert sorted(found["a"]) == [TopicPartition("t1", 2), *partitions("t2", 0, 1)]


@pytest.mark.timeout(20)
def test_moves_come_to_an_end() -> None:
    """Kafka's own assignor (4.3.1) never comes back from this one."""

    def held(text: str) -> list[TopicPartition]:
        return [TopicPartition(f"t{each[0]}", int(each[1])) for each in text.split()]

    members = {
        "a": Member(["t1", "t2", "t3", "t4"], held("44 10 30 43 32 34 45 20"), 5),
        "b": Member(["t1", "t2", "t4"], held("13 11 42 21 40 41 12"), 5),
        "c": Member(["t1", "t3"], (), 5),
        "d": Member(["t2", "t3"], (), 4),
        "e": Member(["t0", "t1", "t2", "t3", "t4"], (), 5),
    }
    found = sticky.assign(anywhere(t0=5, t1=4, t2=2, t3=5, t4=6), members).assignment
    assert sorted(len(each) for each in found.values()) == [4, 4, 4, 5, 5]


@pytest.mark.parametrize("seed", range(300))
def test_no_move_is_left_that_would_make_it_more_even(seed: int) -> None:
    rng = random.Random(seed)
    topics = anywhere(**{f"t{number}": rng.randint(1, 6) for number in range(rng.randint(2, 6))})
    members = {each: Member(rng.sample(sorted(topics), rng.randint(1, len(topics)))) for each in "abcdefgh"[: rng.randint(3, 8)]}
    for each in wanted(Group(topics, {"all": Subscription(sorted(topics))}, {})):
        owner = rng.choice(sorted(members)[: rng.choice([1, 2, 8])])
        if each.topic in members[owner].topics:
            members[owner] = members[owner]._replace(owned=[*members[owner].owned, each])
    members = {each: member._replace(generation=rng.choice([4, 5, 5, 5])) for each, member in members.items()}
    found = sticky.assign(topics, members).assignment
    sizes = {each: len(held) for each, held in found.items()}
    for partition, owner in holders(found).items():
        assert all(sizes[owner] <= sizes[each] + 1 for each, member in members.items() if partition.topic in member.topics)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_subscriptions_of_all_versions_are_read(version: int) -> None:
    said = Subscription(["a", "b"], partitions("a", 0, 2), 7, "x", b"data")
    data = encode_subscription(said)
    if version >= 3:
        assert decode_subscription(version.to_bytes(2, "big") + data[2:]) == said
        return
    from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

    message = ConsumerProtocolSubscription.decode(data[2:], 3)
    found = decode_subscription(version.to_bytes(2, "big") + message.encode(version))
    assert found.topics == ["a", "b"]
    assert found.user_data == b"data"
    assert found.owned == (said.owned if version else [])
    assert found.generation == (7 if version == 2 else -1)
    assert found.rack is None


def test_assignments_are_read_as_they_were_written() -> None:
    told = Assigned(partitions("a", 0, 2) + partitions("b", 1), b"data")
    assert decode_assignment(encode_assignment(told)) == told
    assert decode_assignment(b"") == Assigned(())


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)


@pytest.mark.parametrize("data", [b"", b"\1", b"\0\0\0\1\0\5", b"\0\0\0\0\0\0\0\1\2"])
def test_what_the_sticky_assignor_cannot_read_is_nothing(data: bytes) -> None:
    said = Subscription(["t"], partitions("t", 0), 4, user_data=data)
    assert ASSIGNORS["sticky"].held(said) == ((), -1)


def test_the_sticky_assignor_reads_data_without_a_generation() -> None:
    data = b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1"
    assert ASSIGNORS["sticky"].held(Subscription(["t"], user_data=data)) == (partitions("t", 0, 1), -1)


def test_old_cooperative_members_tell_their_generation_in_their_data() -> None:
    said = Subscription(["t"], partitions("t", 0), user_data=b"\0\0\0\7")
    assert ASSIGNORS["cooperative-sticky"].held(said) == (partitions("t", 0), 7)
    assert ASSIGNORS["cooperative-sticky"].held(said._replace(generation=9)) == (partitions("t", 0), 9)
