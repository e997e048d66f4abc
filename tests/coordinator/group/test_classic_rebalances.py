"""Classic groups while they rebalance: who is waited for and how long, who is watched, and what comes too late."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.records import group_metadata
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.group_records import GroupMetadataValue
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.records.batch import encode_batch
from tests.coordinator.group.support import GROUP, SERDE, SyncReply, World, static_group, subscription

BOTH = [("range", subscription("t")), ("other", subscription("t"))]


def settled(world: World, count: int, **options: int) -> tuple[list[str], int]:
    """As `stable_group`, with one generation, and nobody in front of it: the leader first."""
    replies = [world.join(version=3, **options) for _ in range(count)]
    world.clock.advance_s(6.1)
    answers = [reply.result() for reply in replies]
    leader = answers[0].leader
    ids = sorted([answer.member_id for answer in answers], key=lambda member: member != leader)
    for member in reversed(ids):
        world.sync(member, answers[0].generation_id, {each: each.encode() for each in ids} if member == leader else None)
    assert world.group().state is ClassicState.STABLE
    return ids, answers[0].generation_id


def patient_world(**config: str) -> World:
    return World(group_initial_rebalance_delay_ms="3000", **config)


# -- what comes too late ---------------------------------------------------------------------------------------------------------------


def test_an_assignment_is_not_handed_out_in_a_later_generation() -> None:
    world = World()
    member, reply = world.join_dynamic()
    generation = reply.result().generation_id
    world.log.auto_commit = False
    world.sync(member, generation, {member: b"old"})
    again = world.join(member, protocols=[("range", b"different metadata")])
    assert again.result().generation_id == generation + 1, "begun before the assignment is committed"
    world.log.commit(world.log.log_end_offset)
    assert world.group().state is ClassicState.COMPLETING_REBALANCE
    world.log.auto_commit = True
    assert world.sync(member, generation + 1, {member: b"new"}).result().assignment == b"new"


def overtaken_assignment() -> tuple[World, str, int, SyncReply]:
    """The generation's leader, and a follower that waits; the assignment of the generation before is written and not committed yet."""
    world = World()
    (leader, follower), _ = world.stable_group(2)
    world.log.auto_commit = False
    rejoined = [world.join(member, protocols=[("range", subscription("t"))]) for member in (leader, follower)]
    generation = rejoined[0].result().generation_id
    world.sync(leader, generation, {leader: b"", follower: b"old"})
    rejoined = [world.join(member, protocols=[("range", subscription("t", "u"))]) for member in (follower, leader)]
    assert [reply.result().generation_id for reply in rejoined] == [generation + 1] * 2
    return world, leader, generation + 1, world.sync(follower, generation + 1)


def test_a_member_that_waits_does_not_get_the_assignment_of_the_generation_before() -> None:
    world, leader, generation, waiting = overtaken_assignment()
    world.log.commit(world.log.log_end_offset)
    assert not waiting.done
    follower = next(member for member in world.group().members if member != leader)
    given = world.sync(leader, generation, {leader: b"old", follower: b"new"})
    world.log.commit(world.log.log_end_offset)
    assert (given.result().assignment, waiting.result().assignment) == (b"old", b"new")


def test_an_assignment_that_took_too_long_does_not_disturb_the_next_generation() -> None:
    world, _, generation, _ = overtaken_assignment()
    world.clock.advance_s(5.1)
    assert (world.group().state, world.group().generation_id) == (ClassicState.COMPLETING_REBALANCE, generation)


def test_a_sync_that_waits_hears_of_the_next_rebalance() -> None:
    world = patient_world()
    replies = [world.join(version=3) for _ in range(2)]
    world.clock.advance_s(6.1)
    leader = replies[0].result().leader
    follower = next(reply.result() for reply in replies if reply.result().member_id != leader)
    parked = world.sync(follower.member_id, follower.generation_id)
    world.join(leader, protocols=[("range", b"different metadata")])
    assert parked.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_for_another_protocol_is_refused() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    for fields in ({"protocol_name": "other"}, {"protocol_type": "connect"}):
        request = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member, assignments=[], **fields)
        reply = world.coordinator.sync_group(request)
        world.settle()
        assert reply.result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_leader_whose_answer_was_lost_learns_again_whom_to_assign_to() -> None:
    world = patient_world()
    replies = [world.join(version=3) for _ in range(2)]
    world.clock.advance_s(6.1)
    members = {reply.result().member_id for reply in replies}
    again = world.join(replies[0].result().leader).result()
    assert again.generation_id == replies[0].result().generation_id
    assert {member.member_id for member in again.members} == members


# -- sizes -----------------------------------------------------------------------------------------------------------------------------


def test_group_max_size_holds_while_the_group_rebalances() -> None:
    world = patient_world(group_max_size="2")
    replies = [world.join(version=3) for _ in range(3)]
    world.clock.advance_s(10)
    codes = [reply.result().error_code for reply in replies]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_full_group_is_loaded_without_a_rebalance_and_one_that_is_too_large_with_one() -> None:
    world = patient_world(group_max_size="2")
    settled(world, 2)
    world.load()
    assert world.group().state is ClassicState.STABLE
    larger = patient_world()
    settled(larger, 3)
    smaller = World(larger.log, group_max_size="2")
    assert smaller.group().state is ClassicState.PREPARING_REBALANCE


def test_a_protocol_must_be_one_that_all_have() -> None:
    world = patient_world()
    for instance, protocols in (("a", BOTH), ("b", BOTH[1:])):
        world.join(instance=instance, protocols=protocols)
    assert world.join(protocols=BOTH[:1]).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.clock.advance_s(10)
    assert world.join(protocols=BOTH[:1]).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- who is waited for -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "dies"])
def test_nobody_waits_for_the_last_missing_member_once_it_is_gone(leaves: bool) -> None:
    world = patient_world()
    (leader, missing), generation = settled(world, 2, session_ms=6_000, rebalance_ms=300_000)
    rejoined = world.join(leader)
    assert not rejoined.done
    if leaves:
        world.leave((missing, None))
    else:
        world.clock.advance_s(6.1)
    assert rejoined.result().generation_id == generation + 1
    assert list(world.group().members) == [leader]


def test_an_id_that_nobody_comes_back_with_holds_up_no_rebalance() -> None:
    world = patient_world()
    (leader,), _ = settled(world, 1, rebalance_ms=300_000)
    world.join(session_ms=6_000)
    rejoined = world.join(leader, rebalance_ms=300_000)
    assert not rejoined.done
    world.clock.advance_s(6.1)
    assert rejoined.result().error_code == ErrorCode.NONE


def test_a_leader_that_does_not_come_back_leads_no_more() -> None:
    world = patient_world()
    (leader, follower), _ = settled(world, 2, session_ms=60_000, rebalance_ms=10_000)
    rejoined = world.join(follower, protocols=[("range", b"other")], session_ms=60_000, rebalance_ms=10_000)
    world.clock.advance_s(10.1)
    assert rejoined.result().leader == follower
    assert leader not in world.group().members


def test_when_the_leader_leaves_another_leads() -> None:
    world = patient_world()
    (leader, follower), _ = settled(world, 2)
    world.leave((leader, None))
    assert world.join(follower).result().leader == follower


def test_a_static_leader_that_is_away_stays_a_member_and_leads_no_more() -> None:
    world = patient_world()
    members, generation = static_group(world, "a", "b")
    leader = world.group().leader_id
    (leading,) = [name for name, member in members.items() if member == leader]
    (other,) = {"a", "b"} - {leading}
    for _ in range(4):
        rejoined = world.join(members[other], instance=other, protocols=[("other", subscription("t")), BOTH[0]], rebalance_ms=30_000)
        if rejoined.done:
            break
        world.clock.advance_s(9)
        world.heartbeat(members[leading], generation, leading)
    assert rejoined.result().leader == members[other]
    assert members[leading] in world.group().members


# -- who is watched --------------------------------------------------------------------------------------------------------------------


def test_whoever_is_no_member_any_more_is_not_watched() -> None:
    world = patient_world()
    (first, second, third), _ = settled(world, 3, session_ms=60_000, rebalance_ms=10_000)
    assert all(map(world.is_watched, (first, second, third)))
    world.leave((second, None))
    assert not world.is_watched(second)
    world.join(third, session_ms=60_000, rebalance_ms=10_000)
    world.clock.advance_s(10.1)
    assert list(world.group().members) == [third]
    assert not world.is_watched(first)


def test_a_member_that_dies_after_its_first_generation_is_out_after_its_session() -> None:
    world = World()
    world.join(version=3, session_ms=6_000, rebalance_ms=300_000)
    world.clock.advance_s(6.1)
    assert world.group().state is ClassicState.EMPTY


def test_a_new_member_waits_longer_than_its_session_for_the_others() -> None:
    world = patient_world()
    (member,), generation = settled(world, 1, session_ms=6_000, rebalance_ms=60_000)
    newcomer = world.join(version=3, session_ms=6_000)
    for _ in range(4):
        world.clock.advance_s(5)
        assert world.heartbeat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not newcomer.done
    assert world.join(member).done
    assert newcomer.result().error_code == ErrorCode.NONE


def test_a_new_member_that_waits_is_not_waited_for_without_end() -> None:
    """It cannot send heartbeats, and may be gone."""
    world = patient_world()
    (member,), generation = settled(world, 1, session_ms=6_000, rebalance_ms=900_000)
    newcomer = world.join(version=3, session_ms=6_000)
    for _ in range(61):
        world.clock.advance_s(5)
        world.heartbeat(member, generation)
    assert newcomer.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(world.group().members) == [member]


def test_a_known_member_that_waits_is_alive() -> None:
    world = patient_world()
    (leader, other), generation = settled(world, 2, session_ms=6_000, rebalance_ms=60_000)
    waiting = world.join(leader, session_ms=6_000, rebalance_ms=60_000)
    for _ in range(4):
        world.clock.advance_s(5)
        world.heartbeat(other, generation)
    assert not waiting.done
    world.join(other)
    assert waiting.result().error_code == ErrorCode.NONE


def test_a_member_that_waited_for_its_assignment_has_a_full_session_afterwards() -> None:
    world = patient_world()
    replies = [world.join(version=3, session_ms=6_000, rebalance_ms=60_000) for _ in range(2)]
    world.clock.advance_s(6.1)
    leader, generation = replies[0].result().leader, replies[0].result().generation_id
    (follower,) = [reply.result().member_id for reply in replies if reply.result().member_id != leader]
    parked = world.sync(follower, generation)
    world.clock.advance_s(5)
    world.heartbeat(leader, generation)
    world.clock.advance_s(4)
    world.sync(leader, generation, {follower: b"x", leader: b"y"})
    assert parked.result().assignment == b"x"
    world.clock.advance_s(5)
    assert world.heartbeat(follower, generation) is ErrorCode.NONE


# -- static members --------------------------------------------------------------------------------------------------------------------


def test_a_static_member_that_restarts_while_the_leader_assigns_begins_a_rebalance() -> None:
    world = patient_world()
    replies = {name: world.join(instance=name, protocols=BOTH) for name in "ab"}
    world.clock.advance_s(10)
    generation = replies["a"].result().generation_id
    leader = replies["a"].result().leader
    (follower,) = [name for name, reply in replies.items() if reply.result().member_id != leader]
    back = world.join(instance=follower, protocols=BOTH)
    assert not back.done
    assert world.group().state is ClassicState.PREPARING_REBALANCE
    late = world.sync(leader, generation, {leader: b"all"})
    assert late.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_is_fenced_while_it_waits_when_another_takes_its_place() -> None:
    world = patient_world()
    members, _ = static_group(world, "a", "b")
    leader = world.group().leader_id
    (leading,) = [name for name, member in members.items() if member == leader]
    waiting = world.join(members[leading], instance=leading, protocols=BOTH)
    assert not waiting.done
    world.join(instance=leading, protocols=BOTH)
    assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_keeps_its_place_through_a_rebalance_it_misses() -> None:
    world = patient_world()
    members, _ = static_group(world, "a", "b")
    leader = world.group().leader_id
    (leading,) = [name for name, member in members.items() if member == leader]
    world.join(members[leading], instance=leading, protocols=BOTH, session_ms=60_000, rebalance_ms=5_000)
    assert set(world.group().members) == set(members.values())


def test_an_id_that_was_handed_out_makes_no_static_member() -> None:
    world = World()
    required = world.join().result()
    assert world.join(required.member_id, instance="i").result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- loading ---------------------------------------------------------------------------------------------------------------------------


def stored(log_of: World, record: CoordinatorRecord) -> None:
    key, value = SERDE.encode(record)
    log_of.log.append(encode_batch([(0, key, value, ())]), 1)


def test_members_that_were_stored_without_a_rebalance_timeout_have_their_session_for_it() -> None:
    """Brokers before 0.10.1 wrote none."""
    world = patient_world()
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="c", client_host="/h", rebalance_timeout=-1, session_timeout=20_000, subscription=b"", assignment=b""
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m", current_state_timestamp=1, members=[member]
    )
    stored(world, group_metadata(GROUP, value))
    world.load()
    newcomer = world.join(version=3, rebalance_ms=1_000, session_ms=30_000)
    world.clock.advance_s(15)
    assert not newcomer.done
    world.clock.advance_s(6)
    assert newcomer.result().error_code == ErrorCode.NONE
