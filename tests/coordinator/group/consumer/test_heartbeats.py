"""ConsumerGroupHeartbeat: joining, reconciling, leaving, and what is refused."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.consumer.member import MemberState
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.coordinator.group.consumer.support import ConsumerWorld
from tests.coordinator.group.support import GROUP


def test_the_first_member_gets_everything_at_once() -> None:
    world = ConsumerWorld({"t": 3})
    joined = world.beat("a")
    assert (joined.error_code, joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == (0, "a", 1 + 1, 5000)
    assert world.assigned(joined) == {"t": [0, 1, 2]}
    assert world.consumers.state_name == "Stable"


def test_records_of_a_join_are_those_of_kafka_in_its_order() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    assert [type(record.key) for record in world.records()] == [
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    epoch = world.records()[1].value
    assert isinstance(epoch, ConsumerGroupMetadataValue)
    assert epoch.epoch == 2
    assert epoch.metadata_hash != 0


def test_a_second_member_waits_for_what_the_first_has_to_give_up() -> None:
    world = ConsumerWorld({"t": 4})
    world.beat("a")
    second = world.beat("b")
    assert second.member_epoch == 3
    assert world.assigned(second) == {}
    assert world.member("b").state is MemberState.UNRELEASED_PARTITIONS
    told = world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    assert told.member_epoch == 2
    kept = world.assigned(told)
    assert kept is not None
    assert len(kept["t"]) == 2
    assert world.assigned(world.beat("b", 3)) is None, "a has not given up anything yet"
    done = world.beat("a", 2, owned=kept)
    assert done.member_epoch == 3
    assert world.member("a").state is MemberState.STABLE
    got = world.assigned(world.beat("b", 3))
    assert got is not None
    assert sorted(got["t"] + kept["t"]) == [0, 1, 2, 3]
    assert world.consumers.state_name == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_fenced() -> None:
    world = ConsumerWorld({"t": 2}, group_consumer_session_timeout_ms="45000")
    world.beat("a", rebalance_timeout_ms=20_000)
    world.beat("b")
    world.beat("a", 2)
    world.clock.advance_s(15)
    world.beat("a", 2)
    world.beat("b", 3)
    world.clock.advance_s(6)
    assert world.code("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.assigned(world.beat("b", 3)) == {"t": [0, 1]}


def test_a_silent_member_is_fenced_when_its_session_ends() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.clock.advance_s(44)
    assert world.code("a", 2) is ErrorCode.NONE
    world.clock.advance_s(44)
    assert "a" in world.consumers.members
    world.clock.advance_s(2)
    assert world.consumers.is_empty
    assert world.consumers.state_name == "Empty"


def test_whoever_leaves_leaves_its_partitions() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.beat("b")
    left = world.beat("a", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "a", -1)
    assert world.assigned(world.beat("b", 3)) == {"t": [0, 1]}


def test_only_full_requests_and_changes_bring_the_assignment() -> None:
    world = ConsumerWorld({"t": 1})
    world.beat("a")
    assert world.beat("a", 2).assignment is None
    assert world.assigned(world.beat("a", 2, rebalance_timeout_ms=30_000, topics=["t"], owned={"t": [0]})) == {"t": [0]}


def test_a_lost_answer_is_given_again() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.publish(world.cluster.grow("t", 3))
    assert world.beat("a", 2).member_epoch == 3
    assert world.beat("a", 2, owned={"t": [0, 1]}).member_epoch == 3, "the epoch before, owning no more than it has"
    assert world.code("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH, "it may own anything"
    assert world.code("a", 1, owned={}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.code("a", 9) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_answer_in_the_same_epoch_is_given_again_to_who_says_everything() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.beat("b")
    kept = world.assigned(world.beat("a", 2, owned={"t": [0, 1]}))
    world.beat("a", 2, owned=kept)
    lost = world.beat("b", 3)
    assert (lost.member_epoch, lost.assignment is not None) == (3, True)
    assert world.beat("b", 3).assignment is None, "for the coordinator it has heard"
    assert world.beat("b", 3, owned={}).assignment is None, "what it has is not all that there is to say"
    for _ in "here", "at the next coordinator":
        again = world.beat("b", 3, rebalance_timeout_ms=30_000, topics=["t"], owned={})
        assert again.assignment == lost.assignment
        world.load()


def test_what_a_member_does_not_report_is_free_although_it_was_told_to_take_it() -> None:
    world = ConsumerWorld({"t": 2})
    assert world.assigned(world.beat("a")) == {"t": [0, 1]}
    world.beat("b")
    told = world.beat("a", 2, rebalance_timeout_ms=30_000, topics=["t"], owned={})
    assert (told.member_epoch, world.member("a").state) == (3, MemberState.STABLE)
    mine = world.assigned(told)
    theirs = world.assigned(world.beat("b", 3))
    assert mine is not None
    assert theirs is not None
    assert sorted(mine["t"] + theirs["t"]) == [0, 1]


def test_unknown_groups_and_members() -> None:
    world = ConsumerWorld({"t": 1})
    assert world.code("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    world.beat("a")
    assert world.code("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.code("x", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.code("x", 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "fields",
    [
        {"member": "", "epoch": 0},
        {"member": "", "epoch": 1},
        {"member": "a", "epoch": 0, "group_id": " "},
        {"member": "a", "epoch": 0, "instance": ""},
        {"member": "a", "epoch": 0, "rack_id": ""},
        {"member": "a", "epoch": 0, "rebalance_timeout_ms": -1},
        {"member": "a", "epoch": 0, "owned": {"t": [0]}},
        {"member": "a", "epoch": -2},
        {"member": "a", "epoch": -3},
    ],
)
def test_requests_that_make_no_sense(fields: dict[str, object]) -> None:
    world = ConsumerWorld({"t": 1})
    assert world.code(**fields) is ErrorCode.INVALID_REQUEST


def test_version_zero_members_are_given_an_id() -> None:
    world = ConsumerWorld({"t": 1})
    joined = world.beat("", version=0)
    assert joined.member_id
    assert world.beat(joined.member_id, joined.member_epoch, version=0).error_code == 0


def test_assignors() -> None:
    world = ConsumerWorld({"t": 2, "u": 2})
    assert world.code("a", server_assignor="sticky") is ErrorCode.UNSUPPORTED_ASSIGNOR
    world.beat("a", topics=["t", "u"], server_assignor="range")
    world.beat("b", topics=["t", "u"], server_assignor="range")
    world.beat("a", 2, owned={})
    world.beat("b", 3, owned={})
    assert {member: {name: sorted(world.consumers.targets[member][world.cluster.id(name)]) for name in "tu"} for member in "ab"} == {
        "a": {"t": [0], "u": [0]},
        "b": {"t": [1], "u": [1]},
    }
    assert next(world.coordinator.describe_consumer_groups([GROUP])).assignor_name == "range"


def test_a_full_group() -> None:
    world = ConsumerWorld({"t": 1}, group_consumer_max_size="1")
    world.beat("a")
    assert world.code("b") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.code("a", 2) is ErrorCode.NONE


def test_target_assignments_are_not_computed_more_often_than_configured() -> None:
    world = ConsumerWorld({"t": 4}, group_consumer_assignment_interval_ms="1000")
    world.beat("a")
    assert world.beat("b").member_epoch == 2, "it joins in the epoch of the assignment that there is"
    assert world.consumers.state_name == "Assigning"
    world.clock.advance_s(1)
    assert world.beat("b", 2).member_epoch == 3


class TestSubscriptions:
    def test_partitions_that_are_added_are_assigned(self) -> None:
        world = ConsumerWorld({"t": 1})
        world.beat("a")
        world.publish(world.cluster.grow("t", 2))
        grown = world.beat("a", 2)
        assert grown.member_epoch == 3
        assert world.assigned(grown) == {"t": [0, 1]}

    def test_a_topic_that_comes_later(self) -> None:
        world = ConsumerWorld()
        assert world.assigned(world.beat("a")) == {}
        world.publish(world.cluster.create(t=1))
        assert world.assigned(world.beat("a", 2)) == {"t": [0]}

    def test_a_topic_that_is_deleted_is_given_up(self) -> None:
        world = ConsumerWorld({"t": 1, "u": 1})
        world.beat("a", topics=["t", "u"])
        world.publish(world.cluster.delete("t"))
        assert world.assigned(world.beat("a", 2)) == {"u": [0]}
        assert world.beat("a", 2, owned={"u": [0]}).member_epoch == 3
        assert world.member("a").state is MemberState.STABLE

    def test_another_subscription(self) -> None:
        world = ConsumerWorld({"t": 1, "u": 1})
        world.beat("a")
        changed = world.beat("a", 2, topics=["u"])
        assert (changed.member_epoch, world.assigned(changed)) == (2, {})
        done = world.beat("a", 2, owned={})
        assert (done.member_epoch, world.assigned(done)) == (3, {"u": [0]})

    def test_a_changed_topic_that_nobody_subscribes_to_changes_nothing(self) -> None:
        world = ConsumerWorld({"t": 1, "u": 1})
        world.beat("a")
        world.publish(world.cluster.grow("u", 5))
        assert world.beat("a", 2).member_epoch == 2


class TestRegex:
    def test_a_pattern_is_resolved_beside_the_heartbeats(self) -> None:
        world = ConsumerWorld({"t1": 1, "t2": 1, "other": 1})
        assert world.assigned(world.beat("a", regex="t.")) == {}
        assert world.consumers.regexes["t."].topics == {"t1", "t2"}
        resolved = world.beat("a", world.member("a").member_epoch)
        assert world.assigned(resolved) == {"t1": [0], "t2": [0]}

    def test_a_pattern_that_is_none(self) -> None:
        world = ConsumerWorld()
        assert world.code("a", regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert world.shard.groups.find(GROUP) is None

    def test_new_topics_are_found_after_ten_seconds(self) -> None:
        world = ConsumerWorld({"t1": 1})
        world.beat("a", regex="t.")
        epoch = world.beat("a", 1).member_epoch if world.member("a").member_epoch == 1 else world.beat("a", 2).member_epoch
        world.publish(world.cluster.create(t2=1))
        world.beat("a", epoch)
        assert world.consumers.regexes["t."].topics == {"t1"}
        world.clock.advance_s(10.1)
        rebalances = world.settings.counts.consumer_rebalances
        world.beat("a", epoch)
        assert world.consumers.regexes["t."].topics == {"t1", "t2"}
        assert world.settings.counts.consumer_rebalances == rebalances + 1
        assert world.assigned(world.beat("a", epoch)) == {"t1": [0], "t2": [0]}

    def test_the_pattern_goes_with_the_last_member_that_has_it(self) -> None:
        world = ConsumerWorld({"t1": 1})
        world.beat("a", regex="t.")
        world.beat("b", regex="t.")
        world.beat("a", -1)
        assert "t." in world.consumers.regexes
        world.beat("b", world.member("b").member_epoch, regex="")
        assert "t." not in world.consumers.regexes
        assert not world.consumers.topic_counts

    def test_a_pattern_is_matched_against_all_topics_however_many_turns_that_takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("odradek.coordinator.group.consumer.regexes._MATCHES_PER_TURN", 2)
        world = ConsumerWorld({f"t{number}": 1 for number in range(4)})
        world.beat("a", regex="t.")
        assert world.assigned(world.beat("a", world.member("a").member_epoch)) == {f"t{number}": [0] for number in range(4)}


class TestStaticMembers:
    def test_one_that_comes_back_has_what_it_had_and_nobody_moves(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a", instance="i")
        world.beat("b")
        kept = world.assigned(world.beat("a", 2, instance="i", owned={"t": [0, 1]}))
        world.beat("a", 2, instance="i", owned=kept)
        world.beat("b", 3)
        epoch = world.consumers.epochs.group
        away = world.beat("a", -2, instance="i")
        assert away.member_epoch == -2
        assert world.beat("b", 3).assignment is None
        back = world.beat("a2", instance="i")
        assert (back.member_epoch, world.assigned(back)) == (3, kept)
        assert world.consumers.epochs.group == epoch
        assert world.code("a", 3, instance="i") is ErrorCode.FENCED_INSTANCE_ID

    def test_its_place_is_taken_while_it_is_there(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a", instance="i")
        assert world.code("a2", instance="i") is ErrorCode.UNRELEASED_INSTANCE_ID
        world.beat("a", -1, instance="i")
        assert world.code("a2", instance="i") is ErrorCode.NONE

    def test_one_that_does_not_come_back_is_fenced(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a", instance="i")
        world.beat("a", -2, instance="i")
        world.clock.advance_s(46)
        assert world.consumers.is_empty


class TestCoordinators:
    def test_the_next_coordinator_knows_everything(self) -> None:
        world = ConsumerWorld({"t": 4, "r1": 1})
        world.beat("a", topics=["t"], regex="r.", instance="i")
        world.beat("b")
        world.beat("a", 2)
        before = world.consumers
        world.load()
        after = world.consumers
        assert after is not before
        for name in ("members", "targets", "regexes", "static_members", "topic_counts", "regex_members", "partition_epochs"):
            assert dict(getattr(after, name).items()) == dict(getattr(before, name).items()), name
        assert after.epochs == before.epochs
        world.clock.advance_s(46)
        assert after.is_empty, "sessions begin anew with the new coordinator, and end there"

    def test_what_was_not_written_has_not_happened(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a")
        before = dict(world.consumers.members.items()), dict(world.consumers.partition_epochs.items()), world.consumers.epochs
        world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
        assert world.code("b") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.code("a", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.fail_with = None
        assert (dict(world.consumers.members.items()), dict(world.consumers.partition_epochs.items()), world.consumers.epochs) == before
        world.clock.advance_s(46)
        assert world.consumers.is_empty, "its session still ends"


class TestOffsets:
    def test_commits_are_checked_against_the_members_epoch(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a")
        assert world.commit_code(5, member="a", generation=2) is ErrorCode.NONE
        assert world.commit_code(5, member="a", generation=3) is ErrorCode.STALE_MEMBER_EPOCH
        assert world.commit_code(5, member="x", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.commit_code(5, member="a", generation=2, version=8) is ErrorCode.UNSUPPORTED_VERSION
        world.publish(world.cluster.grow("t", 3))
        world.beat("a", 2)
        assert world.commit_code(6, member="a", generation=2) is ErrorCode.NONE, "it has had partition 0 since then"
        assert world.commit_code(6, member="a", generation=2, partition=2) is ErrorCode.STALE_MEMBER_EPOCH
        assert world.commit_code(6, member="a", generation=1) is ErrorCode.STALE_MEMBER_EPOCH

    def test_what_a_static_member_had_when_it_went_away_is_the_instances_since_ever(self) -> None:
        world = ConsumerWorld({"t": 2})
        world.beat("a", instance="i")
        world.publish(world.cluster.grow("t", 3))
        world.beat("a", 2, instance="i")
        assert world.commit_code(5, member="a", generation=2, partition=2) is ErrorCode.STALE_MEMBER_EPOCH
        world.beat("a", -2, instance="i")
        world.beat("b", instance="i")
        assert world.commit_code(5, member="b", generation=2, partition=2) is ErrorCode.NONE

    def test_commits_of_an_older_epoch_are_good_for_what_the_member_is_giving_up(self) -> None:
        world = ConsumerWorld({"t": 2, "u": 1})
        world.beat("a", topics=["t"])
        world.beat("a", 2, topics=["t", "u"], owned={"t": [0, 1]})
        world.beat("b", topics=["t"])
        world.beat("a", 3, owned={"t": [0, 1], "u": [0]})
        ((partition,),) = world.member("a").pending_revocation.values()
        assert world.commit_code(5, member="a", generation=2, partition=partition) is ErrorCode.NONE

    def test_groups_with_members_cannot_be_deleted(self) -> None:
        world = ConsumerWorld({"t": 1})
        world.beat("a")
        assert world.coordinator.delete_groups([GROUP]).result()[0].error_code == ErrorCode.NON_EMPTY_GROUP
        world.beat("a", -1)
        deleted = world.coordinator.delete_groups([GROUP])
        world.settle()
        assert deleted.result()[0].error_code == ErrorCode.NONE
        assert world.shard.groups.find(GROUP) is None
        world.load()
        assert world.shard.groups.find(GROUP) is None


def test_group_configurations() -> None:
    world = ConsumerWorld({"t": 1})
    world.publish(world.cluster.configure(GROUP, consumer_heartbeat_interval_ms="7000", consumer_session_timeout_ms="1000"))
    assert world.beat("a").heartbeat_interval_ms == 7000
    world.clock.advance_s(44)
    assert "a" in world.consumers.members, "the broker's bounds hold"
    world.clock.advance_s(2)
    assert world.consumers.is_empty


def test_descriptions() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", rack_id="r")
    (described,) = world.coordinator.describe_consumer_groups([GROUP])
    assert (described.group_state, described.group_epoch, described.assignment_epoch, described.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    (member,) = described.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.member_type) == ("a", "r", 2, 1)
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("t", [0, 1])]
    assert [(each.topic_name, each.partitions) for each in member.target_assignment.topic_partitions] == [("t", [0, 1])]
    missing, nameless = list(world.coordinator.describe_consumer_groups(["none", ""]))[::-1]
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def test_who_joins_with_an_unknown_pattern_takes_nothing_from_others() -> None:
    world = ConsumerWorld({"t": 3})
    world.beat(regex="t.*")
    world.clock.advance_s(20)
    assert world.assigned(world.beat("m", 1)) == {"t": [0, 1, 2]}
    world.beat("other", regex="u")
    world.clock.advance_s(20)
    world.beat("other", -1)
    # The epoch is another one now, and the target of nobody is computed for it yet.
    assert world.consumers.epochs.target < world.consumers.epochs.group
    world.beat("other", regex="u")
    assert world.consumers.targets.get("m") == {world.cluster.id("t"): {0, 1, 2}}


def test_a_static_member_whose_successor_could_not_be_stored_is_watched_as_before() -> None:
    world = ConsumerWorld({"t": 3})
    world.beat(instance="i")
    world.beat("m", -2, instance="i")
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.code("n", instance="i") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.is_watched("n")
    world.log.fail_with = None
    world.clock.advance_s(46)
    assert not world.consumers.members


def test_who_turns_to_a_pattern_that_matches_nothing_leaves_its_topics_to_others() -> None:
    world = ConsumerWorld({"t": 2})
    world.beat("a", regex="t.*")
    world.clock.advance_s(20)
    world.beat("b", topics=["t"])
    world.beat("a", world.member("a").member_epoch)
    epoch = world.member("a").member_epoch
    world.beat("a", epoch, owned=world.assigned(world.beat("a", epoch, owned={"t": [0, 1]})) or {})
    assert len(world.consumers.targets.get("a") or {}) == len(world.consumers.targets.get("b") or {}) == 1
    world.clock.advance_s(20)
    world.beat("a", world.member("a").member_epoch, regex="nothing", owned={})
    for member in ("b", "a", "b"):
        world.beat(member, world.member(member).member_epoch)
    assert world.member("b").assigned.keys() == {world.cluster.id("t")}
    assert len(world.member("b").assigned[world.cluster.id("t")]) == 2
