"""Committed offsets: commits by members and by nobody, transactions, fetches, deletions, expiry, loading."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.committed_offsets import decoded, is_expired, record_offset_of
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.records import SERDE, offset_commits, parse_offset_key
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.coordinator.group.offset_support import DAY, TOPIC_ID, delete_groups, end, txn_commit
from tests.coordinator.group.support import GROUP, World, subscription

Partition = OffsetCommitRequest.OffsetCommitRequestPartition


def test_a_consumer_without_a_group_commits_and_fetches() -> None:
    world = World()
    assert world.commit_code(5) is ErrorCode.NONE
    assert world.fetch() == (5, ErrorCode.NONE)
    assert world.fetch(partition=1) == (-1, ErrorCode.NONE)
    assert world.fetch(group_id="other") == (-1, ErrorCode.NONE)
    assert world.group().state is ClassicState.EMPTY
    record = world.records()[-1]
    assert isinstance(record.value, OffsetCommitValue)
    assert record.version == 4
    assert record.value.leader_epoch == 7


def test_a_fetch_sees_what_is_committed_and_a_stable_one_waits() -> None:
    world = World()
    world.commit(5)
    world.log.auto_commit = False
    pending = world.commit(6)
    assert not pending.done
    assert world.fetch() == (5, ErrorCode.NONE)
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    stable = world.coordinator.fetch_offsets(request, require_stable=True)
    assert not stable.done
    world.log.commit(world.log.log_end_offset)
    assert pending.done
    assert stable.result().topics[0].partitions[0].committed_offset == 6


def test_a_commit_that_is_not_appended_leaves_nothing() -> None:
    world = World()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit_code(5) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.fail_with = None
    assert world.fetch() == (-1, ErrorCode.NONE)
    assert world.shard.groups.find(GROUP) is None


@pytest.mark.parametrize(
    ("metadata", "code"), [(None, ErrorCode.NONE), ("x" * 4096, ErrorCode.NONE), ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)]
)
def test_the_metadata_has_a_limit(metadata: str | None, code: ErrorCode) -> None:
    world = World()
    assert world.commit_code(5, metadata=metadata) is code
    assert world.fetch()[0] == (5 if code is ErrorCode.NONE else -1)


def test_the_limit_of_metadata_counts_as_java_does() -> None:
    assert World(offset_metadata_max_bytes="3").commit_code(1, metadata="\N{GRINNING FACE}\N{GRINNING FACE}") is (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    )


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_a_group_that_is_not_there(version: int, code: ErrorCode) -> None:
    assert World().commit_code(1, member="m", generation=3, version=version) is code


def test_members_commit_for_their_generation() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    assert world.commit_code(1, member=member, generation=generation) is ErrorCode.NONE
    assert world.commit_code(2, member=member, generation=generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_code(2, member="x", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit_code(2, member=member, generation=generation, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit_code(2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.fetch()[0] == 1


def test_committing_keeps_a_member_alive() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    for offset in range(4):
        world.clock.advance_s(6)
        assert world.commit_code(offset, member=member, generation=generation) is ErrorCode.NONE


def test_committing_keeps_a_member_alive_while_the_group_prepares_to_rebalance() -> None:
    world = World()
    (member,), generation = world.stable_group(1, rebalance_ms=60_000)
    world.join_dynamic()
    for offset in range(4):
        world.clock.advance_s(6)
        assert world.commit_code(offset, member=member, generation=generation) is ErrorCode.NONE
    assert member in world.group().members


def test_while_the_assignment_is_under_way_nobody_commits() -> None:
    world = World()
    member, reply = world.join_dynamic()
    assert world.commit_code(1, member=member, generation=reply.result().generation_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_offset_of_a_deleted_topic_of_the_same_name_is_not_shown() -> None:
    world = World()
    world.commit(5, topic_id=TOPIC_ID, version=10)
    assert world.fetch(topic_id=TOPIC_ID)[0] == 5
    assert world.fetch()[0] == 5
    assert world.fetch(topic_id=UUID(int=78))[0] == -1


# -- transactions --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_transactional_offsets_wait_for_the_marker(committed: bool, reload: bool) -> None:
    world = World()
    world.commit(1)
    assert txn_commit(world, 5) is ErrorCode.NONE
    if reload:
        world.load()
    assert world.fetch() == (1, ErrorCode.NONE)
    assert world.fetch(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(world, committed=committed)
    if reload:
        world.load()
    assert world.fetch(stable=True) == (5 if committed else 1, ErrorCode.NONE)


@pytest.mark.parametrize("reload", [False, True])
def test_a_later_plain_commit_wins_over_the_transaction(reload: bool) -> None:
    world = World()
    txn_commit(world, 5)
    world.commit(7)
    end(world, committed=True)
    if reload:
        world.load()
    assert world.fetch(stable=True) == (7, ErrorCode.NONE)


def test_a_tombstone_takes_pending_offsets_too() -> None:
    world = World()
    txn_commit(world, 5)
    delete_offset(world)
    end(world, committed=True)
    assert world.fetch(stable=True) == (-1, ErrorCode.NONE)


def test_transactional_commits_of_members() -> None:
    world = World()
    (member,), generation = world.stable_group(1)
    assert txn_commit(world, 1, member=member, generation=generation) is ErrorCode.NONE
    assert txn_commit(world, 1, member=member, generation=generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert txn_commit(world, 1, member="x", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn_commit(world, 1) is ErrorCode.NONE
    assert txn_commit(World(), 1, member="m", generation=3) is ErrorCode.ILLEGAL_GENERATION


# -- deletion ------------------------------------------------------------------------------------------------------------------------


def delete_offset(world: World, topic: str = "t") -> ErrorCode:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    reply = world.coordinator.delete_offsets(request)
    world.settle()
    answer = reply.result()
    return ErrorCode(answer.error_code or answer.topics[0].partitions[0].error_code)


def test_offsets_are_deleted_unless_somebody_reads_the_topic() -> None:
    world = World()
    assert delete_offset(world) is ErrorCode.GROUP_ID_NOT_FOUND
    (member,), generation = world.stable_group(1, protocols=[("range", subscription("t"))])
    world.commit(1, member=member, generation=generation)
    world.commit(1, member=member, generation=generation, topic="other")
    assert delete_offset(world) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(world, "other") is ErrorCode.NONE
    assert world.fetch()[0] == 1
    assert world.fetch("other")[0] == -1


def test_commits_deletions_and_rebalances_are_counted() -> None:
    world = World()
    (member,), generation = world.stable_group(1, protocols=[("range", subscription("t"))])
    world.commit(1, member=member, generation=generation)
    world.commit(1, member=member, generation=generation, topic="other")
    delete_offset(world, "other")
    delete_offset(world)
    counts = world.coordinator.counts
    assert (counts.classic_rebalances, counts.commits, counts.deletions, counts.expirations) == (1, 2, 1, 0)


def test_a_group_of_another_kind_must_be_empty() -> None:
    world = World()
    world.stable_group(1, protocol_type="connect")
    assert delete_offset(world) is ErrorCode.NON_EMPTY_GROUP


def test_groups_are_deleted_with_all_their_offsets() -> None:
    world = World()
    world.commit(1)
    txn_commit(world, 2)
    world.commit(1, group_id="other")
    assert delete_groups(world, GROUP, "none") == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    end(world, committed=True)
    world.load()
    assert [group.group_id for group in world.shard.groups] == ["other"]
    assert len(world.shard.offsets.offsets) == 1


def test_a_group_with_members_is_not_deleted() -> None:
    world = World()
    world.stable_group(1)
    assert delete_groups(world, GROUP) == [ErrorCode.NON_EMPTY_GROUP]


@pytest.mark.parametrize("by", ["group", "topic", "time"])
def test_more_offsets_than_a_batch_holds_are_deleted_in_several(by: str) -> None:
    world = World()
    for partition in range(50):
        world.commit(1, partition=partition)
    world.log.max_batch_bytes = 1_000
    if by == "group":
        assert delete_groups(world, GROUP) == [ErrorCode.NONE]
    elif by == "topic":
        world.runtime.write_all(lambda shard: shard.topics_deleted({"t": {TOPIC_ID}}))
        world.settle()
    else:
        world.clock.advance_s(8 * DAY)
    world.load()
    assert len(world.shard.offsets.offsets) == 0
    assert (world.shard.groups.find(GROUP) is None) is (by != "topic")


def test_offsets_go_with_their_topic() -> None:
    world = World()
    world.commit(1)
    world.commit(2, topic="kept")
    txn_commit(world, 3)
    world.runtime.write_all(lambda shard: shard.topics_deleted({"t": {TOPIC_ID}}))
    world.settle()
    end(world, committed=True)
    assert world.fetch()[0] == -1
    assert world.fetch("kept")[0] == 2


def test_offsets_of_a_new_topic_of_the_same_name_stay() -> None:
    world = World()
    world.commit(1, topic_id=TOPIC_ID)
    world.commit(2, topic_id=UUID(int=78), partition=1)
    world.commit(3, partition=2)
    world.runtime.write_all(lambda shard: shard.topics_deleted({"t": {TOPIC_ID}}))
    world.settle()
    assert [world.fetch(partition=number)[0] for number in range(3)] == [-1, 2, -1]


# -- expiry --------------------------------------------------------------------------------------------------------------------------


def test_offsets_of_nobody_expire_by_their_commit_and_the_group_with_the_last() -> None:
    world = World()
    world.commit(1)
    world.clock.advance_s(3 * DAY)
    world.commit(2, partition=1)
    world.clock.advance_s(5 * DAY)
    assert world.fetch()[0] == -1
    assert world.fetch(partition=1)[0] == 2
    world.clock.advance_s(3 * DAY)
    assert world.coordinator.counts.expirations == 2
    assert world.shard.groups.find(GROUP) is None
    assert isinstance(world.records()[-1].key, GroupMetadataKey)
    world.load()
    assert len(world.shard.groups) == 0


def test_what_one_turn_does_not_look_at_expires_in_the_next_and_not_an_interval_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.coordinator.group.shard._OFFSETS_PER_TURN", 3)
    world = World()
    for number in range(10):
        world.commit(1, group_id=f"g{number}")
    world.clock.advance_s(7 * DAY + 601)
    assert len(world.shard.offsets.offsets) == len(world.shard.groups) == 0


def test_a_group_keeps_its_offsets_while_it_has_members_that_read_the_topic() -> None:
    world = World()
    options = {"protocols": [("range", subscription("t"))], "session_ms": 1_800_000}
    (member,), generation = world.stable_group(1, **options)
    world.commit(1, member=member, generation=generation)
    world.commit(1, member=member, generation=generation, topic="left")
    for _ in range(8 * 96):
        world.clock.advance_s(DAY / 96)
        assert world.heartbeat(member, generation) is ErrorCode.NONE
    assert world.fetch()[0] == 1
    assert world.fetch("left")[0] == -1
    world.leave((member, None))
    world.clock.advance_s(6.9 * DAY)
    assert world.fetch()[0] == 1
    world.clock.advance_s(0.2 * DAY)
    assert world.fetch()[0] == -1


def test_a_retention_time_of_its_own() -> None:
    world = World()
    world.commit(1, retention_ms=1_000, version=4)
    assert world.records()[-1].version == 1
    world.load()
    world.clock.advance_s(599)
    assert world.fetch()[0] == 1
    world.clock.advance_s(2)
    assert world.fetch()[0] == -1


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1 - 2**32])
def test_a_retention_time_beyond_all_times_wraps_as_in_java(retention_ms: int) -> None:
    world = World()
    assert world.commit_code(1, retention_ms=retention_ms, version=4) == ErrorCode.NONE
    value = world.records()[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp < 0
    world.load()
    assert world.fetch()[0] == 1
    world.clock.advance_s(601)
    assert world.fetch()[0] == -1


def test_what_a_transaction_holds_back_does_not_expire() -> None:
    world = World()
    world.commit(1)
    txn_commit(world, 2)
    world.clock.advance_s(8 * DAY)
    assert world.fetch()[0] == 1
    assert world.shard.groups.find(GROUP) is not None


# -- records -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("metadata", ["", "x", "y" * 127, "y" * 300])
def test_the_age_of_an_offset_is_read_from_any_version(version: int, metadata: str) -> None:
    world = World()
    value = OffsetCommitValue(offset=5, metadata=metadata, commit_timestamp=1_000, expire_timestamp=-1, leader_epoch=-1)
    key = OffsetCommitKey(group=GROUP, topic="t", partition=3)
    encoded_key = b"\0\1" + key.encode(0)
    assert parse_offset_key(encoded_key) == (b"g", b"t", 3)
    assert world.shard.replay_encoded(0, -1, encoded_key, version.to_bytes(2, "big") + value.encode(version))
    stored = world.shard.offsets.offsets.get(GROUP, "t", 3)
    assert stored is not None
    assert decoded(stored).offset == 5
    assert not is_expired(stored, 1_000 + 99, None, 100)
    assert is_expired(stored, 1_000 + 100, None, 100)


@pytest.mark.parametrize("length", [125, 126, 127, 128])
def test_metadata_comes_back_whatever_its_length_takes(length: int) -> None:
    """Length and one stand in a single byte as long as they fit into seven bits."""
    world = World()
    world.commit(5, metadata="m" * length)
    world.load()
    stored = world.shard.offsets.offsets.get(GROUP, "t", 0)
    assert stored is not None
    assert (decoded(stored).offset, decoded(stored).metadata) == (5, "m" * length)


def several_offsets(first: int) -> OffsetCommitRequest:
    """Two topics, one partition twice, one that is refused for its metadata."""
    offsets: dict[str, list[tuple[int, str | None]]] = {
        "t": [(0, ""), (1, "x" * 5_000), (2, None), (0, "again")],
        "refused": [(0, "x" * 5_000)],
        "u": [(0, "é" * 100)],
    }
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    Partition(partition_index=index, committed_offset=first + number, committed_metadata=metadata)
                    for number, (index, metadata) in enumerate(commits)
                ],
            )
            for topic, commits in offsets.items()
        ],
    )


def test_the_offsets_of_a_request_are_committed_or_taken_back_together() -> None:
    world = World()
    world.commit_code(5, partition=2)
    world.log.auto_commit = False
    table = world.shard.offsets.offsets

    def committed() -> dict[tuple[str, int], tuple[int, str]]:
        return {
            (topic, partition): (decoded(stored).offset, decoded(stored).metadata)
            for topic, partitions in table.topics(GROUP, committed=True)
            for partition, stored in partitions.committed_items()
        }

    reply = world.coordinator.commit_offsets(Caller(9, "", ""), several_offsets(10))
    world.settle()
    latest = {("t", 2): (12, ""), ("t", 0): (13, "again"), ("u", 0): (10, "é" * 100)}
    assert {(topic, partition): decoded(each).offset for topic, partition, each in table.of_group(GROUP)} == {
        place: offset for place, (offset, _) in latest.items()
    }
    assert [record_offset_of(each) for _, _, each in sorted(table.of_group(GROUP))] == [3, 2, 4]
    end = world.log.log_end_offset
    assert end == 5
    world.log.commit(end - 1)
    assert committed() == {("t", 2): (5, "")}
    assert not reply.done
    world.log.commit(end)
    assert committed() == latest
    codes = [[(each.partition_index, each.error_code) for each in topic.partitions] for topic in reply.result().topics]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert codes == [[(0, 0), (1, too_large), (2, 0), (0, 0)], [(0, too_large)], [(0, 0)]]
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    failed = world.coordinator.commit_offsets(Caller(9, "", ""), several_offsets(20))
    world.settle()
    assert failed.result().topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed() == latest
    assert len(world.shard.offsets.offsets) == 3


@pytest.mark.parametrize("cut", range(1, 18))
def test_a_key_that_is_not_an_offsets_is_left_to_the_decoder(cut: int) -> None:
    ((key, _),) = offset_commits(GROUP, "topic", [Partition()], commit_timestamp=0)
    assert parse_offset_key(key) is not None
    assert parse_offset_key(key[:-cut]) is None
    assert parse_offset_key(b"\0\2" + key[2:]) is None


def test_a_commit_of_which_nothing_is_taken_makes_no_group() -> None:
    world = World()
    assert world.commit_code(1, metadata="x" * 5_000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.shard.groups.find(GROUP) is None


@given(
    group=st.text(max_size=300),
    topic=st.text(max_size=20),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=3) | st.text("xé", min_size=60, max_size=130),
    timestamp=st.integers(0, 2**63 - 1),
    expires=st.none() | st.integers(-1, 2**63 - 1),
    topic_id=st.just(ZERO_UUID) | st.uuids(),
)
def test_a_commit_is_encoded_at_once_as_its_messages_would_be(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    timestamp: int,
    expires: int | None,
    topic_id: UUID,
) -> None:
    commit = Partition(partition_index=partition, committed_offset=offset, committed_leader_epoch=leader_epoch, committed_metadata=metadata)
    topic_id = topic_id if expires is None else ZERO_UUID
    version, expire_timestamp = (4, -1) if expires is None else (1, expires)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )
    record = CoordinatorRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), value, version)
    encoded = offset_commits(group, topic, [commit], commit_timestamp=timestamp, expire_timestamp=expires, topic_id=topic_id)
    assert encoded == [SERDE.encode(record)]
