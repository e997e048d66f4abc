"""Groups that change their protocol, with members in them and without."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey, ConsumerGroupRegularExpressionKey
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from tests.coordinator.group.consumer.migration_support import MigrationWorld, assignment, partitions, subscription
from tests.coordinator.group.support import GROUP


def upgraded() -> tuple[MigrationWorld, str]:
    """A member of the classic protocol, with all partitions, and one of the consumer protocol that waits for half of them."""
    world = MigrationWorld({"t": 4})
    classic, generation = world.classic_group(t=[0, 1, 2, 3])
    joined = world.beat("new")
    assert (joined.error_code, joined.member_epoch, world.assigned(joined)) == (0, generation + 1, {})
    return world, classic


def test_a_classic_group_becomes_a_consumer_group() -> None:
    world, classic = upgraded()
    group = world.consumers
    assert group.members[classic].classic is not None
    assert dict(group.members[classic].assigned[world.cluster.id("t")]).keys() == {0, 1, 2, 3}
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.load()
    assert isinstance(world.shard.groups.find(GROUP), ConsumerGroup)
    described = {member.member_id: member.member_type for member in next(world.coordinator.describe_consumer_groups([GROUP])).members}
    assert described == {classic: 0, "new": 1}


def test_members_of_both_protocols_share_the_partitions() -> None:
    world, classic = upgraded()
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = world.rejoin(classic, {"t": [0, 1, 2, 3]}).result()
    assert (first.error_code, first.generation_id, first.leader, first.protocol_name) == (0, 1, "", "range")
    kept = world.synced(classic, 1)
    assert len(kept["t"]) == 2
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    second = world.rejoin(classic, kept).result()
    assert second.generation_id == 2
    assert world.synced(classic, 2) == kept
    assert world.heartbeat(classic, 2) is ErrorCode.NONE
    got = world.assigned(world.beat("new", 2))
    assert got is not None
    assert sorted(got["t"] + kept["t"]) == [0, 1, 2, 3]
    assert world.consumers.state_name == "Stable"
    assert world.commit_code(1, member=classic, generation=2) is ErrorCode.NONE
    assert world.commit_code(1, member=classic, generation=3) is ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_that_does_not_join_again_is_fenced() -> None:
    world, classic = upgraded()
    world.heartbeat(classic, 1)
    for _ in range(7):
        world.clock.advance_s(5)
        world.heartbeat(classic, 1)
        world.beat("new", 2)
    assert classic not in world.consumers.members
    assert world.assigned(world.beat("new", 2, rebalance_timeout_ms=1, topics=["t"], owned={})) == {"t": [0, 1, 2, 3]}


def test_the_last_member_of_the_consumer_protocol_leaves_a_classic_group() -> None:
    world, classic = upgraded()
    assert world.beat("new", -1).error_code == 0
    group = world.shard.groups.find(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.is_in(ClassicState.PREPARING_REBALANCE)
    assert group.protocol_name == "range"
    assert world.heartbeat(classic, group.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.rejoin(classic).result()
    assert again.error_code == 0
    assert again.leader == classic
    world.sync(classic, again.generation_id, {classic: assignment(t=[0, 1, 2, 3])})
    assert world.heartbeat(classic, again.generation_id) is ErrorCode.NONE
    world.load()
    assert world.group().is_in(ClassicState.STABLE)


def test_a_downgrade_that_cannot_be_written_has_not_happened() -> None:
    world, classic = upgraded()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.code("new", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.fail_with = None
    assert set(world.consumers.members) == {classic, "new"}
    assert world.code("new", 2) is ErrorCode.NONE


def test_an_upgrade_that_cannot_be_written_leaves_no_sessions() -> None:
    world = MigrationWorld({"t": 2})
    classic, generation = world.classic_group(t=[0, 1])
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.code("new") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group().is_in(ClassicState.STABLE)
    assert not world.is_session_watched("new")
    assert not world.is_session_watched(classic)
    world.log.fail_with = None
    assert world.heartbeat(classic, generation) is ErrorCode.NONE
    assert world.code("new") is ErrorCode.NONE
    assert world.is_session_watched("new")
    assert world.is_session_watched(classic)


def test_a_group_that_is_full_does_not_begin_to_change_its_protocol() -> None:
    world = MigrationWorld({"t": 2}, group_consumer_max_size="1", group_initial_rebalance_delay_ms="3000")
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    assert world.code("new") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not joined.done, "nobody is told to come again to a group that stays what it is"
    assert not world.is_session_watched("new")
    assert not world.is_session_watched(member)
    world.clock.advance_s(3)
    assert joined.result().error_code == ErrorCode.NONE


def test_a_static_member_goes_back_to_the_classic_protocol() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    joined = world.join(instance="i", protocols=[("range", subscription("t"))]).result()
    assert joined.error_code == 0
    group = world.shard.groups.find(GROUP)
    assert isinstance(group, ClassicGroup)
    assert group.is_in(ClassicState.STABLE)
    assert partitions(group.members[joined.member_id].assignment) == {"t": [0, 1]}
    assert world.heartbeat(joined.member_id, joined.generation_id, "i") is ErrorCode.NONE
    answer = world.sync(joined.member_id, joined.generation_id, instance="i").result()
    assert partitions(answer.assignment) == {"t": [0, 1]}


def test_classic_members_join_and_leave_a_consumer_group() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    assert joined.result().generation_id == 3
    assert world.synced(member, 3) == {}
    assert world.heartbeat(member, 3) is ErrorCode.NONE, "what it misses is not given up yet"
    kept = world.assigned(world.beat("a", 2, owned={"t": [0, 1]}))
    world.beat("a", 2, owned=kept)
    assert world.heartbeat(member, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    world.rejoin(member)
    assert len(world.synced(member, 3)["t"]) == 1
    assert world.sync(member, 2).result().error_code == ErrorCode.ILLEGAL_GENERATION
    assert world.sync("a", 3).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [answer.error_code for answer in world.leave((member, None), ("x", None)).members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(world.consumers.members) == {"a"}


def test_one_that_leaves_before_its_assignment_can_be_told_is_not_watched() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    generation = joined.result().generation_id
    world.settle = lambda: None  # type: ignore[method-assign]
    # One turn: what has something to be written before it is answered later.
    world.commit(1, member=member, generation=generation)
    synced = world.sync(member, generation)
    request = LeaveGroupRequest(group_id=GROUP, members=[LeaveGroupRequest.MemberIdentity(member_id=member)])
    left = world.coordinator.leave_group(request)
    assert not synced.done
    world.clock.run_due()
    assert (synced.result().error_code, left.result().error_code) == (0, 0)
    assert not world.is_session_watched(member)


def test_protocols_that_have_nothing_in_common() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    world.join_dynamic(protocols=[("range", subscription("t"))])
    other = world.join(protocols=[("sticky", subscription("t"))]).result()
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_policy_forbids() -> None:
    world = MigrationWorld({"t": 2}, group_consumer_migration_policy="disabled")
    world.classic_group(t=[0, 1])
    assert world.code("new") is ErrorCode.GROUP_ID_NOT_FOUND
    world = MigrationWorld({"t": 2}, group_consumer_migration_policy="disabled")
    world.beat("a")
    assert world.join(protocols=[("range", subscription("t"))]).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world = MigrationWorld({"t": 4}, group_consumer_migration_policy="upgrade")
    classic, _ = world.classic_group(t=[0, 1])
    world.beat("new")
    world.beat("new", -1)
    assert set(world.consumers.members) == {classic}


def test_groups_that_are_no_consumers_stay_as_they_are() -> None:
    world = MigrationWorld({"t": 2})
    world.join_dynamic(protocol_type="connect")
    assert world.code("new") is ErrorCode.GROUP_ID_NOT_FOUND
    world = MigrationWorld({"t": 2})
    world.join_dynamic(protocols=[("range", b"\0")])
    assert world.code("new") is ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_groups_change_their_type_freely() -> None:
    world = MigrationWorld({"t": 2}, group_consumer_migration_policy="disabled")
    world.commit(5)
    world.beat("a")
    assert world.fetch() == (5, ErrorCode.NONE)
    world.beat("a", -1)
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    assert joined.result().error_code == 0
    assert world.group().leader_id == member
    assert world.fetch() == (5, ErrorCode.NONE)
    world.load()
    assert isinstance(world.shard.groups.find(GROUP), ClassicGroup)


def test_a_group_that_has_no_generation_yet_becomes_a_consumer_group() -> None:
    world = MigrationWorld({"t": 2}, group_initial_rebalance_delay_ms="3000")
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    assert not joined.done
    assert world.code("new") is ErrorCode.NONE
    assert joined.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.consumers.members[member].topic_names == {"t"}
    world.clock.advance_s(9)
    assert set(world.consumers.members) == {member, "new"}, "the timers of the classic group find nobody"


def test_whoever_is_parked_in_a_classic_group_comes_again_when_it_is_upgraded() -> None:
    world = MigrationWorld({"t": 2})
    member, _ = world.classic_group(t=[0, 1])
    _, parked = world.join_dynamic(protocols=[("range", subscription("t"))])
    assert not parked.done
    assert world.code("new") is ErrorCode.NONE
    assert parked.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member in world.consumers.members


def test_a_classic_member_that_dies_is_fenced_after_an_upgrade_and_after_a_downgrade() -> None:
    world, classic = upgraded()
    for _ in range(3):
        world.clock.advance_s(4)
        world.beat("new", 2)
    assert set(world.consumers.members) == {"new"}
    world = MigrationWorld({"t": 2})
    world.beat("a")
    classic, _ = world.join_dynamic(protocols=[("range", subscription("t"))])
    world.beat("a", -1)
    assert classic in world.group().members
    world.clock.advance_s(11)
    assert classic not in world.group().members


def test_a_classic_group_that_is_too_large_for_a_consumer_group_stays_what_it_is() -> None:
    world = MigrationWorld({"t": 2}, group_consumer_max_size="2", group_initial_rebalance_delay_ms="3000")
    replies = [world.join(version=3, protocols=[("range", subscription("t"))]) for _ in range(3)]
    world.clock.advance_s(9)
    assert all(reply.result().error_code == ErrorCode.NONE for reply in replies)
    assert world.code("new") is ErrorCode.GROUP_ID_NOT_FOUND
    assert len(world.group().members) == 3


def test_a_consumer_group_that_is_too_large_for_a_classic_one_stays_what_it_is() -> None:
    world = MigrationWorld({"t": 4}, group_max_size="1")
    world.beat("a")
    members = {world.join_dynamic(protocols=[("range", subscription("t"))])[0] for _ in range(2)}
    assert world.beat("a", -1).error_code == 0
    assert set(world.consumers.members) == members


def test_what_an_assignor_keeps_in_the_assignment_is_not_thrown_away() -> None:
    world = MigrationWorld({"t": 2})
    member, joined = world.join_dynamic(protocols=[("range", subscription("t"))])
    world.sync(member, joined.result().generation_id, {member: assignment(b"state of the assignor", t=[0, 1])})
    assert world.code("new") is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.group().is_in(ClassicState.STABLE)


def test_a_group_that_the_last_member_of_the_consumer_protocol_leaves_alone_stays_a_consumer_group() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    world.beat("a", -1)
    assert isinstance(world.shard.groups.find(GROUP), ConsumerGroup)


def test_patterns_do_not_outlive_the_consumer_group_in_the_log() -> None:
    world = MigrationWorld({"t": 2})
    world.classic_group(t=[0, 1])
    world.beat("new", regex="t.*")
    assert world.consumers.regexes["t.*"].topics == {"t"}
    world.beat("new", -1)
    assert isinstance(world.shard.groups.find(GROUP), ClassicGroup)
    patterns = [record for record in world.records() if isinstance(record.key, ConsumerGroupRegularExpressionKey)]
    assert patterns[-1].value is None


def test_a_classic_member_that_joins_and_does_not_sync_is_fenced_and_one_that_does_is_not() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    silent, joined = world.join_dynamic(protocols=[("range", subscription("t"))], rebalance_ms=10_000)
    good, again = world.join_dynamic(protocols=[("range", subscription("t"))], rebalance_ms=10_000)
    world.sync(good, again.result().generation_id)
    for _ in range(3):
        world.clock.advance_s(4)
        world.heartbeat(silent, joined.result().generation_id)
        world.heartbeat(good, again.result().generation_id)
        world.beat("a", 2)
    assert set(world.consumers.members) == {"a", good}


def test_a_classic_member_that_joined_again_in_time_is_not_fenced_for_it() -> None:
    world, classic = upgraded()
    assert world.heartbeat(classic, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.clock.advance_s(5)
    world.rejoin(classic, {"t": [0, 1, 2, 3]})
    kept = world.synced(classic, 1)
    generation = world.rejoin(classic, kept).result().generation_id
    world.synced(classic, generation)
    for _ in range(7):
        world.clock.advance_s(5)
        world.heartbeat(classic, generation)
        world.beat("new", world.member("new").member_epoch)
    assert classic in world.consumers.members


def test_a_classic_member_does_not_sync_with_an_assignment_of_the_past() -> None:
    world, classic = upgraded()
    assert world.sync(classic, 1).result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_of_an_older_epoch_of_a_classic_member_are_refused() -> None:
    world, classic = upgraded()
    world.rejoin(classic, {"t": [0, 1, 2, 3]})
    generation = world.rejoin(classic, world.synced(classic, 1)).result().generation_id
    assert generation == 2
    assert world.heartbeat(classic, 1) is ErrorCode.ILLEGAL_GENERATION


def test_a_consumer_group_that_a_classic_one_replaces_is_deleted_in_the_log() -> None:
    world = MigrationWorld({"t": 2})
    world.beat("a")
    world.beat("a", -1)
    world.join_dynamic(protocols=[("range", subscription("t"))])
    assert [record.value for record in world.records() if isinstance(record.key, ConsumerGroupMetadataKey)][-1] is None
