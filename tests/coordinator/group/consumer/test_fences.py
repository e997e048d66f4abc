"""Consumer groups: who owns what and since when, who is fenced, what the log may hold, and what a group looks at again."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.consumer import records as write
from odradek.coordinator.group.consumer.member import ConsumerMember, MemberState
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.consumer_group_records import ConsumerGroupCurrentMemberAssignmentValue
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.records.batch import encode_batch
from tests.coordinator.group.consumer.support import ConsumerWorld
from tests.coordinator.group.support import GROUP, SERDE

EVERYWHERE = frozenset({"t"})


def logged(world: ConsumerWorld, records: Iterable[CoordinatorRecord]) -> None:
    """The next coordinator finds these in the log."""
    for record in records:
        key, value = SERDE.encode(record)
        world.log.append(encode_batch([(0, key, value, ())]), 1)
    world.load()


def member(member_id: str, epoch: int, assigned: dict[UUID, dict[int, int]], **fields: str) -> ConsumerMember:
    made = ConsumerMember(member_id, epoch, epoch - 1, topic_names=EVERYWHERE, rebalance_timeout_ms=30_000, assigned=assigned)
    return made._replace(**fields)


# -- who owns what ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_late_release_frees_nothing_that_another_member_has(order: tuple[str, str]) -> None:
    """Of a log that was compacted in parts, where an older owner is still there."""
    world = ConsumerWorld({"t": 1})
    topic = world.cluster.id("t")
    members = {"a": member("a", 5, {topic: {0: 5}}), "b": member("b", 6, {topic: {0: 6}})}
    records = [write.member_metadata(GROUP, members[name]) for name in order]
    records += [write.group_epoch(GROUP, 6, 0)]
    records += [write.current_assignment(GROUP, members[name]) for name in order]
    records += [write.current_assignment(GROUP, members["a"]._replace(member_epoch=6, assigned={}))]
    logged(world, records)
    assert not world.consumers.is_free(topic, 0)


def test_a_member_gets_back_at_once_what_it_was_itself_giving_up() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.beat("b")
    told = world.assigned(world.beat("a", 2, owned={"t": [0, 1]}))
    assert told is not None
    world.beat("b", -1)
    back = world.beat("a", 2, owned=told)
    assert world.assigned(back) == {"t": [0, 1]}
    assert world.member("a").state is MemberState.STABLE


def test_a_topic_that_a_member_turns_away_from_is_free_when_it_says_so() -> None:
    world = ConsumerWorld({"t": 1, "u": 1})
    world.beat("a", topics=["t", "u"])
    world.beat("b", topics=["u"])
    world.beat("a", 2, topics=["t"])
    for _ in range(2):
        world.beat("b", world.member("b").member_epoch)
    assert not world.member("b").assigned, "a may still read it"
    world.beat("a", 2, owned={"t": [0]})
    assert world.assigned(world.beat("b", world.member("b").member_epoch)) == {"u": [0]}


def test_a_topic_that_a_member_turns_away_from_is_not_free_although_the_target_does_not_follow_yet() -> None:
    world = ConsumerWorld({"t": 1, "u": 1}, group_consumer_assignment_interval_ms="10000")
    world.beat("a", topics=["t", "u"])
    told = world.beat("a", 2, topics=["t"])
    assert (told.member_epoch, world.assigned(told)) == (2, {"t": [0]})
    world.clock.advance_s(10)
    joined = world.beat("b", topics=["u"])
    assert world.assigned(joined) == {}, "a may still read it"
    world.beat("a", 2, owned={"t": [0]})
    assert world.assigned(world.beat("b", joined.member_epoch)) == {"u": [0]}


def test_what_a_member_was_giving_up_is_not_free_because_it_turns_away_from_the_rest() -> None:
    world = ConsumerWorld({"t": 2, "u": 1})
    world.beat("a", topics=["t", "u"])
    world.beat("b", topics=["t"])
    assert world.assigned(world.beat("a", 2)) == {"t": [0], "u": [0]}, "it is to give up t-1"
    world.beat("a", 2, topics=["u"])
    for _ in range(2):
        world.beat("b", world.member("b").member_epoch)
    assert not world.member("b").assigned, "a may still read both"
    world.beat("a", 2, owned={"u": [0]})
    assert world.assigned(world.beat("b", world.member("b").member_epoch)) == {"t": [0, 1]}


def test_members_with_different_subscriptions_get_what_they_subscribe_to() -> None:
    world = ConsumerWorld({"t": 2, "u": 2})
    assert world.assigned(world.beat("a", topics=["t"])) == {"t": [0, 1]}
    assert world.assigned(world.beat("b", topics=["u"])) == {"u": [0, 1]}


def test_a_member_that_is_to_have_nothing_has_an_empty_target() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.beat("a", 2, topics=["none"], owned={"t": [0, 1]})
    world.beat("b")
    assert world.consumers.targets.get("a") == {}
    world.beat("a", 2, owned={})
    assert world.assigned(world.beat("b", world.member("b").member_epoch)) == {"t": [0, 1]}


# -- epochs ----------------------------------------------------------------------------------------------------------------------------


def test_a_member_one_epoch_behind_must_not_own_more_than_it_has() -> None:
    world = ConsumerWorld({"t": 2, "u": 2})
    epoch = world.beat("a", topics=["t"]).member_epoch
    world.beat("a", epoch, topics=["u"], owned={"t": [0, 1]})
    world.beat("a", epoch, owned={})
    assert world.member("a").previous_epoch == epoch < world.member("a").member_epoch
    assert world.code("a", epoch, owned={"t": [0]}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.code("a", epoch, owned={"u": [0]}) is ErrorCode.NONE


def test_offsets_are_not_told_to_a_member_of_another_epoch() -> None:
    world = ConsumerWorld({"t": 2})
    epoch = world.beat("a").member_epoch

    def fetched(member_epoch: int) -> int:
        request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, member_id="a", member_epoch=member_epoch, topics=[])
        return world.coordinator.fetch_offsets(request, require_stable=False).result().error_code

    assert fetched(epoch) == ErrorCode.NONE
    assert fetched(epoch - 1) == fetched(epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_in_a_state_of_a_later_release_gives_up_all_that_it_has() -> None:
    world = ConsumerWorld({"t": 1})
    topic = world.cluster.id("t")
    has = member("a", 5, {topic: {0: 5}})
    current = write.current_assignment(GROUP, has)
    assert isinstance(current.value, ConsumerGroupCurrentMemberAssignmentValue)
    current.value.state = 99
    logged(world, [write.member_metadata(GROUP, has), write.group_epoch(GROUP, 5, 0), write.target_epoch(GROUP, 5, 1), current])
    assert world.code("a", 5) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.code("a", 5, owned={"t": [0]}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.code("a", 5, owned={}) is ErrorCode.NONE


def test_a_member_whose_assignment_was_deleted_has_none() -> None:
    world = ConsumerWorld({"t": 1})
    topic = world.cluster.id("t")
    has = member("a", 5, {topic: {0: 5}})
    records = [write.member_metadata(GROUP, has), write.group_epoch(GROUP, 5, 0), write.current_assignment(GROUP, has)]
    logged(world, [*records, write.current_assignment_tombstone(GROUP, "a")])
    assert world.consumers.is_free(topic, 0)
    assert not world.member("a").assigned


# -- time ------------------------------------------------------------------------------------------------------------------------------


def test_the_next_coordinator_waits_no_longer_than_this_one_for_what_is_to_be_given_up() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", rebalance_timeout_ms=20_000)
    world.beat("b")
    world.beat("a", 2, owned={"t": [0, 1]})
    world.load()
    for _ in range(3):
        world.clock.advance_s(7)
        world.beat("a", 2)
        world.beat("b", 3)
    assert set(world.consumers.members) == {"b"}


# -- static members --------------------------------------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_takes_the_place_of_its_former_self() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    world.publish(world.cluster.grow("t", 4))
    assert world.assigned(world.beat("b", instance="i")) == {"t": [0, 1, 2, 3]}
    assert set(world.consumers.members) == set(world.consumers.targets) == {"b"}


def test_a_static_member_that_is_away_keeps_what_it_had() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    (described,) = next(world.coordinator.describe_consumer_groups([GROUP])).members
    assert (described.member_epoch, [each.partitions for each in described.assignment.topic_partitions]) == (-2, [[0, 1]])


def test_a_static_member_that_is_away_has_given_up_what_it_was_giving_up() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", instance="i")
    world.beat("b")
    world.beat("a", 2, instance="i", owned={"t": [0, 1]})
    assert world.assigned(world.beat("b", 3, owned={})) is None
    assert world.member("a").pending_revocation
    world.beat("a", -2, instance="i")
    assert [len(partitions) for partitions in (world.assigned(world.beat("b", 3)) or {}).values()] == [1]


def test_an_instance_belongs_to_who_took_it_last_in_whatever_order_the_log_tells() -> None:
    world = ConsumerWorld({"t": 1})
    members = [member(name, 5, {}, instance_id="i") for name in "ab"]
    records = [write.member_metadata(GROUP, each) for each in members]
    records += [write.group_epoch(GROUP, 5, 0), *[write.current_assignment(GROUP, each) for each in members]]
    logged(world, [*records, write.member_metadata_tombstone(GROUP, "a")])
    assert world.code("b", 5, instance="i") is ErrorCode.NONE


# -- what a group looks at again -------------------------------------------------------------------------------------------------------


def test_new_partitions_are_noticed_although_the_epoch_that_did_was_taken_back() -> None:
    world = ConsumerWorld({"t": 1})
    world.beat("a")
    world.publish(world.cluster.grow("t", 2))
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.code("a", 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.fail_with = None
    assert world.assigned(world.beat("a", 2)) == {"t": [0, 1]}


def test_topics_that_change_are_noticed_by_a_group_at_rest() -> None:
    world = ConsumerWorld({"t": 1, "u": 1})
    world.beat("a", topics=["t", "u"])
    for _ in range(3):
        assert world.beat("a", 2).member_epoch == 2
    world.publish(world.cluster.grow("t", 2))
    assert world.assigned(world.beat("a", 2)) == {"t": [0, 1], "u": [0]}
    for _ in range(3):
        assert world.beat("a", 3).member_epoch == 3
    world.publish(world.cluster.delete("u"))
    assert world.assigned(world.beat("a", 3)) == {"t": [0, 1]}


def test_a_tombstone_of_a_consumer_group_spares_the_classic_one_of_its_name() -> None:
    world = ConsumerWorld({"t": 1})
    world.commit(5)
    logged(world, [write.group_epoch_tombstone(GROUP)])
    assert world.fetch() == (5, ErrorCode.NONE)
    assert world.shard.groups.find_classic(GROUP) is not None


def test_a_pattern_that_nobody_has_any_more_does_not_count() -> None:
    world = ConsumerWorld({"t1": 1, "u": 1})
    world.beat("a", regex="t.")
    world.beat("a", world.member("a").member_epoch)
    world.clock.advance_s(11)
    world.beat("a", world.member("a").member_epoch, topics=["u"], regex="", owned={})
    world.beat("a", world.member("a").member_epoch, owned={})
    epoch = world.consumers.epochs.group
    world.load()
    world.beat("a", world.member("a").member_epoch)
    assert world.consumers.epochs.group == epoch, "the topics of the group are what they were"


def test_a_topic_that_a_pattern_matches_no_more_is_subscribed_to_by_nobody() -> None:
    world = ConsumerWorld({"t1": 1, "t2": 1})
    world.beat("a", regex="t.")
    world.beat("a", world.member("a").member_epoch)
    world.publish(world.cluster.delete("t1"))
    world.publish(world.cluster.create(t3=1))
    world.clock.advance_s(11)
    world.beat("a", world.member("a").member_epoch)
    assert world.consumers.regexes["t."].topics == {"t2", "t3"}
    assert not world.consumers.is_subscribed_to_topic("t1")


def test_a_pattern_whose_members_left_while_it_was_evaluated_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.coordinator.group.consumer.regexes._MATCHES_PER_TURN", 1)
    world = ConsumerWorld({f"t{number}": 1 for number in range(9)})
    world.beat("b", topics=["t1"])
    monkeypatch.setattr(world, "settle", world.clock.turn)
    world.beat("a", regex="t.")
    world.beat("a", -1)
    assert not world.consumers.regexes, "it is still being evaluated"
    for _ in range(12):
        world.clock.turn()
    assert not world.consumers.regexes
    assert set(world.consumers.topic_counts.keys()) == {"t1"}


def test_an_assignor_that_was_turned_off_is_not_asked() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", server_assignor="uniform")
    later = ConsumerWorld({"t": 2}, group_consumer_assignors="range")
    later.log, later.cluster, later.epoch = world.log, world.cluster, world.epoch
    later.load()
    assert later.code("b") is ErrorCode.NONE
    assert sum(len(partitions) for each in "ab" for partitions in (later.consumers.targets.get(each) or {}).values()) == 2


def test_states_are_told_of_what_is_committed() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.log.auto_commit = False
    with pytest.raises(RuntimeError):
        world.beat("b")
    assert [group.group_state for group in world.coordinator.list_groups(ListGroupsRequest()).groups] == ["Stable"]
    world.log.commit(world.log.log_end_offset)
    assert [group.group_state for group in world.coordinator.list_groups(ListGroupsRequest()).groups] == ["Reconciling"]
