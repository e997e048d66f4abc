"""Offsets that are not everybody's yet: of open transactions, above the high watermark; and what may not expire meanwhile."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.service import GroupCoordinator
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.coordinator.group.consumer.support import ConsumerWorld
from tests.coordinator.group.offset_support import DAY, TOPIC_ID, delete_groups, end, txn_commit
from tests.coordinator.group.support import GROUP, PARTITION, World, subscription


def fetch_all(world: World, *, stable: bool) -> dict[tuple[str, int], tuple[int, ErrorCode]]:
    """(topic, partition) -> (offset, error)."""
    reply = world.coordinator.fetch_offsets(OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None), require_stable=stable)
    world.settle()
    return {
        (topic.name, each.partition_index): (each.committed_offset, ErrorCode(each.error_code))
        for topic in reply.result().topics
        for each in topic.partitions
    }


def test_a_fetch_of_everything_tells_what_is_committed() -> None:
    world = World()
    world.commit(1)
    world.log.auto_commit = False
    world.commit(2)
    world.commit(3, partition=1)
    assert fetch_all(world, stable=False) == {("t", 0): (1, ErrorCode.NONE)}
    world.log.commit(world.log.log_end_offset)
    assert fetch_all(world, stable=False) == {("t", 0): (2, ErrorCode.NONE), ("t", 1): (3, ErrorCode.NONE)}


def test_a_stable_fetch_of_everything_tells_nothing_of_what_a_transaction_holds() -> None:
    world = World()
    world.commit(1)
    world.commit(1, partition=1)
    txn_commit(world, 5)
    assert fetch_all(world, stable=True) == {("t", 0): (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), ("t", 1): (1, ErrorCode.NONE)}
    assert fetch_all(world, stable=False)["t", 0] == (1, ErrorCode.NONE)


@pytest.mark.parametrize("first", [9, 10])
def test_an_offset_is_unstable_until_the_last_of_its_transactions_has_ended(first: int) -> None:
    world = World()
    txn_commit(world, 5, producer=9)
    txn_commit(world, 6, producer=10)
    end(world, committed=True, producer=first)
    assert world.fetch(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(world, committed=True, producer=19 - first)
    assert world.fetch(stable=True)[0] == 6, "the later of the two, whichever was ended first"


def test_a_deleted_group_does_not_come_back_with_a_transaction() -> None:
    world = World()
    txn_commit(world, 5)
    assert delete_groups(world, GROUP) == [ErrorCode.NONE]
    end(world, committed=True)
    assert world.shard.groups.find(GROUP) is None
    assert len(world.shard.offsets.offsets) == 0


def test_a_deleted_topic_does_not_come_back_with_a_transaction() -> None:
    world = World()
    txn_commit(world, 5)
    world.runtime.write_all(lambda shard: shard.topics_deleted({"t": {TOPIC_ID}}))
    world.settle()
    end(world, committed=True)
    assert world.fetch(stable=True) == (-1, ErrorCode.NONE)


def test_members_commit_in_a_transaction_for_what_they_have_had_since_their_epoch() -> None:
    """A producer knows nothing of stale epochs: it hears of an illegal generation."""
    world = ConsumerWorld({"t": 2})
    world.beat("a")
    world.publish(world.cluster.grow("t", 3))
    world.beat("a", 2)
    assert txn_commit(world, 1, member="a", generation=2) is ErrorCode.NONE
    assert txn_commit(world, 1, member="a", generation=2, partition=2) is ErrorCode.ILLEGAL_GENERATION
    assert txn_commit(world, 1, member="a", generation=3, partition=2) is ErrorCode.NONE


def test_a_stable_fetch_that_waits_too_long_is_answered_with_what_consumers_retry() -> None:
    world = World()
    world.log.auto_commit = False
    world.commit(1)
    reply = world.coordinator.fetch_offsets(OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None), require_stable=True)
    world.clock.advance_s(6)
    assert reply.result().error_code == ErrorCode.NOT_COORDINATOR


def test_groups_of_several_partitions_are_deleted_when_the_last_partition_has_answered() -> None:
    """Of the two only the first is coordinated here."""
    world = World()
    coordinator = GroupCoordinator(world.runtime, world.settings, topic=PARTITION.topic, partition_count=lambda: 2)
    here, elsewhere = sorted(["g", "h"], key=lambda name: coordinator.partition_for(name).partition)
    assert coordinator.partition_for(elsewhere).partition == 1
    world.commit(1, group_id=here)
    world.log.auto_commit = False
    reply = coordinator.delete_groups([elsewhere, here])
    world.settle()
    assert not reply.done
    world.log.commit(world.log.log_end_offset)
    assert {each.group_id: each.error_code for each in reply.result()} == {here: ErrorCode.NONE, elsewhere: ErrorCode.NOT_COORDINATOR}


# -- expiry --------------------------------------------------------------------------------------------------------------------------


def test_a_group_with_an_open_transaction_stays_when_all_else_of_it_has_expired() -> None:
    world = World()
    world.commit(1, partition=1)
    txn_commit(world, 2)
    world.clock.advance_s(8 * DAY)
    assert world.fetch(partition=1)[0] == -1
    assert world.shard.groups.find(GROUP) is not None
    world.load()
    end(world, committed=True)
    assert world.fetch(stable=True) == (2, ErrorCode.NONE)


def test_a_group_whose_transactions_have_ended_expires_and_leaves_nothing() -> None:
    world = World()
    txn_commit(world, 2)
    end(world, committed=True)
    world.clock.advance_s(8 * DAY)
    assert world.shard.groups.find(GROUP) is None
    assert GROUP not in world.shard.offsets.offsets.groups
    assert not world.shard.offsets.pending.has_group(GROUP)


def test_a_group_with_members_does_not_expire_for_having_no_offsets() -> None:
    world = World()
    world.stable_group(1, session_ms=1_800_000)
    world.clock.advance_s(1_200)
    world.load()
    assert len(world.group().members) == 1


def test_offsets_do_not_expire_while_the_group_rebalances() -> None:
    """What the members will be subscribed to is not known then."""
    world = World(offsets_retention_minutes="1", offsets_retention_check_interval_ms="60000")
    patience = {"session_ms": 1_800_000, "rebalance_ms": 1_800_000}
    (member,), generation = world.stable_group(1, protocols=[("range", subscription("t"))], **patience)
    world.commit(1, member=member, generation=generation, topic="left")
    world.join_dynamic(protocols=[("range", subscription("left"))], **patience)
    world.clock.advance_s(200)
    assert world.fetch("left")[0] == 1


def test_loading_leaves_nothing_behind_but_the_state() -> None:
    world = World()
    world.commit(1)
    world.load()
    assert world.fetch()[0] == 1
    assert world.shard.load_tables == {}
