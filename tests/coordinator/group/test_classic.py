"""Classic groups: joining, leading, syncing, failing, leaving; static members; what is stored and what survives a change of coordinator."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller
from odradek.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from tests.coordinator.group.support import GROUP, World, static_group, subscription


def test_a_dynamic_member_gets_its_id_first_and_joins_with_it() -> None:
    world = World()
    required = world.join().result()
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert required.member_id.startswith("client-")
    joined = world.join(required.member_id).result()
    assert joined.error_code == ErrorCode.NONE
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id == required.member_id
    assert joined.protocol_name == "range"
    assert joined.protocol_type == "consumer"
    assert [member.member_id for member in joined.members] == [required.member_id]


def test_an_older_client_joins_at_once() -> None:
    joined = World().join(version=3).result()
    assert joined.error_code == ErrorCode.NONE
    assert joined.leader == joined.member_id


def test_an_id_that_nobody_comes_back_with_is_forgotten() -> None:
    world = World()
    member = world.join(session_ms=6_000).result().member_id
    world.clock.advance_s(6)
    assert world.join(member).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_assignment_is_stored_before_anybody_gets_it() -> None:
    world = World()
    member, reply = world.join_dynamic()
    generation = reply.result().generation_id
    world.log.auto_commit = False
    synced = world.sync(member, generation, {member: b"mine"})
    assert not synced.done
    assert world.group().state is ClassicState.COMPLETING_REBALANCE
    world.log.commit(world.log.log_end_offset)
    assert synced.result().assignment == b"mine"
    assert world.group().state is ClassicState.STABLE
    record = world.records()[-1]
    assert isinstance(record.key, GroupMetadataKey)
    assert isinstance(record.value, GroupMetadataValue)
    assert record.version == 3
    assert record.value.leader == member
    assert record.value.members[0].assignment == b"mine"
    assert record.value.members[0].client_host == "/127.0.0.1"


def test_an_assignment_that_cannot_be_stored_is_handed_to_nobody() -> None:
    world = World()
    member, reply = world.join_dynamic()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    synced = world.sync(member, reply.result().generation_id, {member: b"mine"})
    assert synced.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group().state is ClassicState.PREPARING_REBALANCE


def test_a_group_that_could_not_be_stored_answers_all_who_joined_it() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    first = world.join(instance="a")
    assert first.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.groups.find("g") is None


def test_the_initial_delay_waits_for_more_members_and_is_extended_by_them() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    _, first = world.join_dynamic()
    world.clock.advance_s(2)
    _, second = world.join_dynamic()
    world.clock.advance_s(1)
    assert not first.done
    world.clock.advance_s(3)
    assert len(first.result().members) + len(second.result().members) == 2


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    _, first = world.join_dynamic(rebalance_ms=5_000)
    for _ in range(5):
        world.join_dynamic(rebalance_ms=5_000)
        world.clock.advance_s(1)
    assert first.done


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    world = World()
    (leader, follower), generation = world.stable_group(2)
    assert world.sync(follower, generation).result().assignment == follower.encode()
    assert world.group().is_leader(leader)


def test_the_protocol_is_the_one_that_all_support_and_most_prefer() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    preferences = [(("a", b""), ("b", b"")), (("b", b""), ("a", b"")), (("c", b""), ("b", b""), ("a", b""))]
    replies = [world.join(instance=str(index), protocols=protocols) for index, protocols in enumerate(preferences)]
    world.clock.advance_s(10)
    assert {reply.result().protocol_name for reply in replies} == {"b"}


def test_who_has_nothing_in_common_may_not_join() -> None:
    world = World()
    world.stable_group(1)
    assert world.join(protocols=[("other", b"")]).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(group_id="new", protocols=[]).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("protocol_type", ["connect", "whatever"])
def test_any_protocol_type_will_do(protocol_type: str) -> None:
    world = World()
    _, reply = world.join_dynamic(protocol_type=protocol_type, protocols=[("default", b"x")])
    assert reply.result().members[0].metadata == b"x"


def test_a_new_member_makes_the_others_join_again() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    newcomer, reply = world.join_dynamic()
    assert not reply.done
    assert world.heartbeat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(member)
    assert again.result().generation_id == reply.result().generation_id == generation + 1
    assert again.result().leader == member
    assert world.heartbeat(newcomer, generation) is ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_join_again_in_time_is_out() -> None:
    world = World()
    (member,), generation = world.stable_group(1, rebalance_ms=5_000, session_ms=20_000)
    newcomer, reply = world.join_dynamic(rebalance_ms=5_000)
    world.clock.advance_s(5)
    assert reply.result().leader == newcomer
    assert world.heartbeat(member, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_and_the_others_hear_of_it() -> None:
    world = World()
    (leader, silent), generation = world.stable_group(2)
    for _ in range(3):
        world.clock.advance_s(4)
        answer = world.heartbeat(leader, generation)
    assert answer is ErrorCode.REBALANCE_IN_PROGRESS
    assert silent not in world.group().members


def test_the_last_one_out_leaves_an_empty_group_behind() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    assert world.leave((member, None)).members[0].error_code == ErrorCode.NONE
    assert world.group().state is ClassicState.EMPTY
    value = world.records()[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.members, value.protocol, value.protocol_type) == (generation + 1, [], None, "consumer")


def test_leaving_in_batches_answers_for_everybody() -> None:
    world = World()
    (one, two), _ = world.stable_group(2)
    pending = world.join().result().member_id
    answer = world.leave((one, None), ("stranger", None), ("", "nobody"), (pending, None))
    assert [each.error_code for each in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert list(world.group().members) == [two]


def test_who_does_not_sync_in_time_is_out() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    _, first = world.join_dynamic(rebalance_ms=5_000)
    _, second = world.join_dynamic(rebalance_ms=5_000)
    world.clock.advance_s(6)
    leader, generation = first.result().leader, first.result().generation_id
    world.sync(leader, generation, {})
    assert world.group().state is ClassicState.STABLE
    world.clock.advance_s(5)
    assert list(world.group().members) == [leader]
    assert world.heartbeat(leader, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.done


def test_group_max_size() -> None:
    world = World(group_max_size="1")
    (member,), _ = world.stable_group(1)
    assert world.join().result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(member).result().error_code == ErrorCode.NONE


def test_a_leader_that_joins_again_begins_a_rebalance_and_a_follower_does_not() -> None:
    world = World()
    (leader, follower), generation = world.stable_group(2)
    assert world.join(follower).result().generation_id == generation
    assert world.group().state is ClassicState.STABLE
    assert not world.join(leader).done
    assert world.group().state is ClassicState.PREPARING_REBALANCE


def test_a_repeated_join_gets_the_answer_and_the_first_one_is_overtaken() -> None:
    world = World()
    world.stable_group(1)
    member, first = world.join_dynamic()
    second = world.join(member)
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done


def test_a_member_removed_while_its_sync_is_parked_is_told() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    replies = [world.join(instance=name) for name in "ab"]
    world.clock.advance_s(10)
    follower = next(reply.result() for reply in replies if reply.result().leader != reply.result().member_id)
    parked = world.sync(follower.member_id, follower.generation_id)
    assert not parked.done
    world.leave((follower.member_id, None))
    assert parked.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- static members ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 8, 9])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_static_member_comes_back_without_a_rebalance(name: str, version: int) -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    members, generation = static_group(world, "a", "b")
    led = world.group().is_leader(members[name])
    back = world.join(instance=name, protocols=[("range", subscription("t"))], version=version).result()
    assert back.error_code == ErrorCode.NONE
    assert back.generation_id == generation
    assert back.member_id != members[name]
    assert world.group().state is ClassicState.STABLE
    if led:
        assert back.skip_assignment is (version >= 9)
        assert (back.leader == back.member_id) is (version >= 9)
    assert world.heartbeat(members[name], generation, name) is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(back.member_id, generation, instance=name).result().assignment == members[name].encode()
    stored = world.records()[-1].value
    assert isinstance(stored, GroupMetadataValue)
    assert back.member_id in {member.member_id for member in stored.members}


def test_a_static_member_whose_new_id_cannot_be_stored_keeps_the_old_one() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    members, generation = static_group(world, "a", "b")
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join(instance="a", protocols=[("range", subscription("t"))]).result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(members["a"], generation, "a") is ErrorCode.NONE


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_static_members_that_follow_one_another_before_they_are_stored(stored: int) -> None:
    """`stored`: how many of the two."""
    world = World(group_initial_rebalance_delay_ms="3000")
    members, generation = static_group(world, "a", "b")
    world.settle = lambda: None  # type: ignore[method-assign]
    protocols = [("range", subscription("t"))]
    answers = [world.join(instance="a", protocols=protocols)]
    if stored == 1:
        world.clock.run_due()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS if stored < 2 else None
    answers.append(world.join(instance="a", protocols=protocols))
    ids = [members["a"], *[member for member in world.group().members if member not in members.values()]]
    world.clock.run_due()
    first, second = (answer.result() for answer in answers)
    assert second.error_code == (ErrorCode.NONE if stored == 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert first.error_code == (ErrorCode.NONE if stored == 1 else ErrorCode.FENCED_INSTANCE_ID)
    last = {0: ids[0], 1: first.member_id, 2: second.member_id}[stored]
    assert world.heartbeat(last, generation, "a") is ErrorCode.NONE
    assert set(world.group().members) == {members["b"], last}
    assert all(member.replaces is None for member in world.group().members.values())


def test_a_static_member_that_changes_the_protocol_begins_a_rebalance() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    static_group(world, "a", "b")
    joined = world.join(instance="a", protocols=[("other", subscription("t"))])
    assert not joined.done
    assert world.group().state is ClassicState.PREPARING_REBALANCE


def test_an_administrator_removes_a_static_member_by_its_name() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    members, generation = static_group(world, "a", "b")
    assert world.leave(("", "a")).members[0].error_code == ErrorCode.NONE
    assert world.heartbeat(members["a"], generation, "a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_comes_back_before_its_sync_causes_no_rebalance_later() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    replies = {name: world.join(instance=name, rebalance_ms=5_000, session_ms=60_000) for name in "ab"}
    world.clock.advance_s(5)
    leader = replies["a"].result().leader
    generation = replies["a"].result().generation_id
    follower = next(name for name, reply in replies.items() if reply.result().member_id != leader)
    world.sync(leader, generation, {})
    back = world.join(instance=follower, rebalance_ms=5_000, session_ms=60_000).result()
    world.sync(back.member_id, generation, instance=follower)
    world.clock.advance_s(6)
    assert world.group().state is ClassicState.STABLE
    assert world.group().generation_id == generation


# -- change of coordinator -----------------------------------------------------------------------------------------------------------


def test_a_loaded_group_goes_on_with_fresh_sessions() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    world.clock.advance_s(9)
    world.load()
    world.clock.advance_s(9)
    assert world.heartbeat(member, generation) is ErrorCode.NONE
    assert world.sync(member, generation).result().assignment == member.encode()
    world.clock.advance_s(10)
    assert world.group().state is ClassicState.EMPTY


def test_members_that_do_not_find_the_new_coordinator_are_out() -> None:
    world = World()
    (member,), _ = world.stable_group(1)
    world.load()
    assert world.is_watched(member)
    world.clock.advance_s(10)
    assert world.group().state is ClassicState.EMPTY


def test_whoever_is_parked_hears_that_the_coordinator_moved() -> None:
    world = World()
    world.stable_group(1)
    _, parked = world.join_dynamic()
    world.runtime.unload(world.shard.topic_partition, None)
    assert parked.result().error_code == ErrorCode.NOT_COORDINATOR
    assert world.heartbeat("x", 1) is ErrorCode.NOT_COORDINATOR


def test_while_loading_heartbeats_are_answered_blindly() -> None:
    world = World()
    world.stable_group(1)
    world.log.reads = []
    world.load()
    assert world.heartbeat("whoever", 3) is ErrorCode.NONE
    assert world.join().result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_session_timeouts_have_limits() -> None:
    world = World()
    assert world.join(session_ms=5_999).result().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_ms=1_800_001).result().error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(group_id="").result().error_code == ErrorCode.INVALID_GROUP_ID


def test_ids_are_not_handed_out_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.coordinator.group.classic.joining.MAX_PENDING_MEMBERS", 3)
    world = World()
    codes = [world.join(session_ms=6_000).result().error_code for _ in range(4)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
    world.clock.advance_s(6)
    assert world.join().result().error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_nobody_waits_for_whom_a_full_group_has_sent_away() -> None:
    world = World(group_max_size="1")
    required = world.join().result()
    world.stable_group(1)
    assert world.join(required.member_id).result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.is_watched(required.member_id)


@pytest.mark.parametrize("version", [3, 9])
def test_a_group_that_could_not_be_stored_leaves_no_timers(version: int) -> None:
    world = World()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    world.join(version=version)
    assert world.shard.groups.find("g") is None
    assert len(world.timers[-1]) == 1, "the expiry of offsets"


def test_a_sync_with_a_stable_group_does_not_begin_the_session_anew() -> None:
    """As in JVM Kafka 4.3.1: it is no heartbeat, and its answer no promise of a full session."""
    world = World()
    (member, other), generation = world.stable_group(2)
    for seconds in (6, 3):
        world.clock.advance_s(seconds)
        assert world.sync(other, generation).result().error_code == ErrorCode.NONE
        assert world.heartbeat(member, generation) is ErrorCode.NONE
    world.clock.advance_s(2)
    assert list(world.group().members) == [member]


def test_an_assignment_that_was_loaded_is_told_when_it_is_committed() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    world.log.auto_commit = False
    world.log.high_watermark = world.log.log_end_offset - 1
    world.load()
    assert world.sync(member, generation).result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.log.commit(world.log.log_end_offset)
    assert world.sync(member, generation).result().assignment == member.encode()


def test_a_group_that_took_long_to_be_stored_keeps_whoever_was_told_of_a_generation() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    world.log.auto_commit = False
    first = world.join(instance="i")
    world.clock.advance_s(3)
    assert first.result().error_code == ErrorCode.NONE
    world.clock.advance_s(3)
    assert list(world.group().members) == [first.result().member_id]


def test_the_protocol_is_described_while_it_is_in_force() -> None:
    world = World()
    world.stable_group(1)

    def described() -> tuple[str, str, list[bytes]]:
        [group] = world.coordinator.describe_groups(Caller(6, "client", "/127.0.0.1"), [GROUP])
        return group.group_state, group.protocol_data, [each.member_metadata for each in group.members]

    state, protocol, metadata = described()
    assert (state, protocol, len(metadata)) == ("Stable", "range", 1)
    world.join_dynamic(protocols=(("range", b"new"),))
    state, protocol, metadata = described()
    assert (state, protocol) == ("PreparingRebalance", "")
    assert set(metadata) == {b""}
