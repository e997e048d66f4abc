"""What a change of role, of metadata or of a directory does to a partition, and what it must leave alone."""

from __future__ import annotations

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.replication.alter_partition import IsrAnswer
from odradek.replication.following import truncate_to_divergence
from odradek.replication.isr import CommittedIsr
from odradek.replication.roles import Role
from odradek.storage.append import AppendOrigin
from tests.clock import ManualClock
from tests.replication.partition_support import Pair, error_of
from tests.replication.support import MAX_LAG_MS, TP, Brokers, Node, PartitionMetadata, batch, content, fetch_as, replicate, wanted


def single(**config: str) -> Node:
    """A node with a replica that has no role yet."""
    return Node(1, ManualClock(), Brokers({1: 10, 2: 20, 3: 30}), **config)


class TestMetadata:
    def test_a_follower_ignores_what_is_older_than_it_knows(self) -> None:
        pair = Pair()
        pair.follower.partition.make_follower(PartitionMetadata(leader=1, leader_epoch=3, partition_epoch=7), pair.follower.log)
        assert (
            pair.follower.partition.make_follower(PartitionMetadata(leader=3, leader_epoch=2, partition_epoch=6), pair.follower.log)
            is False
        )
        assert (pair.follower.partition.leader_id, pair.follower.partition.leader_epoch) == (1, 3)

    def test_a_leader_is_not_made_a_follower_by_old_news(self) -> None:
        pair = Pair()
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=2, partition_epoch=5), pair.leader.log)
        pair.leader.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=4), pair.leader.log)
        assert pair.leader.partition.role is Role.LEADER

    def test_a_new_isr_does_not_make_a_follower_fetch_anew(self) -> None:
        pair = Pair()
        follower = pair.follower.partition
        assert follower.make_follower(PartitionMetadata(isr=(1,), partition_epoch=1), pair.follower.log) is False
        assert follower.make_follower(PartitionMetadata(leader_epoch=1, partition_epoch=2), pair.follower.log) is True

    def test_a_new_isr_does_not_begin_the_epoch_again(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        pair.replicate()
        pair.leader.append(b"b")
        pair.clock.advance_ms(MAX_LAG_MS / 2)
        assert pair.leader.partition.make_leader(PartitionMetadata(partition_epoch=1), pair.leader.log) is False
        assert pair.leader.partition.leader_epoch_start_offset == 0
        pair.clock.advance_ms(MAX_LAG_MS / 2 + 1)
        assert pair.leader.partition.maybe_shrink_isr(), "the follower's time has run since its last fetch"

    def test_a_follower_has_no_start_of_the_epoch(self) -> None:
        pair = Pair()
        assert pair.leader.partition.leader_epoch_start_offset == 0
        pair.leader.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=1), pair.leader.log)
        assert pair.leader.partition.leader_epoch_start_offset is None


class TestNewLeader:
    def test_alone_in_the_isr_everything_is_committed_at_once(self) -> None:
        node = single()
        node.partition.make_follower(PartitionMetadata(leader=2), node.log)
        node.partition.append_as_follower(batch(b"a", partition_leader_epoch=0), 0, high_watermark=0, log_start_offset=0)
        waiting = node.reader.fetch(fetch_as(-1, max_wait_ms=500, leader_only=False), [wanted(0)])
        assert isinstance(waiting, Deferred)
        node.partition.make_leader(PartitionMetadata(leader_epoch=1, partition_epoch=1, isr=(1,)), node.log)
        node.delayed.drain()
        assert node.log.high_watermark == 1
        assert content(waiting.result()[0][1]) != b""

    def test_gives_the_followers_of_the_isr_their_time(self) -> None:
        node = single()
        node.clock.advance_ms(10 * MAX_LAG_MS)
        node.partition.make_leader(PartitionMetadata(replicas=(1, 2, 3), isr=(1, 2)), node.log)
        node.append(b"a")
        node.clock.advance_ms(MAX_LAG_MS)
        assert not node.partition.maybe_shrink_isr()
        node.clock.advance_ms(1)
        assert node.partition.maybe_shrink_isr()

    def test_believes_nothing_of_what_followers_had_when_it_led_before(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        pair.replicate()
        elsewhere = PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=1)
        pair.leader.partition.make_follower(elsewhere, pair.leader.log)
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=2, partition_epoch=2), pair.leader.log)
        assert pair.leader.partition.follower(2, 2).log_end_offset == -1

    def test_believes_nothing_when_others_may_have_led_in_between(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        [(_, read)] = pair.leader.reader.read(fetch_as(2, replica_epoch=20), [wanted(1)], update_follower=True)
        read.release()
        pair.leader.append(b"b")
        assert pair.leader.log.high_watermark == 1
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=1, partition_epoch=1), pair.leader.log)
        assert pair.leader.partition.follower(2, 1).log_end_offset == 1, "nobody led between two epochs in a row"
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=3, partition_epoch=3), pair.leader.log)
        assert pair.leader.partition.follower(2, 3).log_end_offset == -1, "what it had it may have truncated in epoch 2"

    def test_says_where_its_epoch_begins_before_it_has_a_record(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=5, partition_epoch=5), pair.leader.log)
        [(_, read)] = pair.leader.reader.read(
            fetch_as(2, replica_epoch=20), [wanted(4, current_leader_epoch=5, last_fetched_epoch=3)], update_follower=True
        )
        assert (read.error, read.diverging_epoch) == (ErrorCode.NONE, (0, 1)), "a follower with records of epoch 3 has to truncate"


class TestMinInsyncReplicas:
    def test_a_replica_on_its_way_in_does_not_count(self) -> None:
        pair = Pair(isr=(1,), min_insync_replicas="2")
        pair.replicate()
        assert pair.leader.partition.isr.in_flight
        assert error_of(lambda: pair.leader.append(b"a", acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
        pair.leader.controller.accept()
        assert pair.leader.append(b"a", acks=-1) == 0

    def test_replicas_that_a_reassignment_brings_do_not_raise_the_demand(self) -> None:
        node = single(min_insync_replicas="3")
        node.partition.make_leader(PartitionMetadata(replicas=(1, 2, 3), adding_replicas=(3,), isr=(1, 2)), node.log)
        assert node.partition.min_isr == 2
        assert node.append(b"a", acks=-1) == 0
        assert node.partition.is_adding_replica(3)
        assert not node.partition.is_adding_replica(2)


class TestHighWatermark:
    def test_waits_for_a_replica_on_its_way_into_the_isr_however_long_that_takes(self) -> None:
        pair = Pair(isr=(1,))
        pair.leader.append(b"a")
        pair.replicate()
        pair.replicate()
        assert pair.leader.partition.isr.in_flight
        pair.clock.advance_ms(MAX_LAG_MS + 1)
        pair.leader.append(b"b")
        assert pair.leader.log.high_watermark == 1

    def test_does_not_wait_for_a_caught_up_replica_that_may_not_join(self) -> None:
        pair = Pair(isr=(1,))
        pair.brokers.shutting_down.add(2)
        pair.replicate()
        pair.leader.append(b"a")
        assert pair.leader.log.high_watermark == 1

    def test_waits_for_a_caught_up_replica_that_may_join(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.controller.refuse(ErrorCode.INELIGIBLE_REPLICA)
        assert isinstance(pair.leader.partition.isr, CommittedIsr)
        pair.leader.append(b"a")
        assert pair.leader.log.high_watermark == 0

    def test_an_append_says_whether_it_moved_it(self) -> None:
        pair = Pair()
        for _ in range(2):
            _, moved = pair.leader.partition.append_as_leader(batch(b"a"), 1, AppendOrigin.CLIENT)
            assert not moved
            pair.replicate()
        alone = single()
        alone.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), alone.log)
        _, moved = alone.partition.append_as_leader(batch(b"a"), 1, AppendOrigin.CLIENT)
        assert moved

    def test_of_a_follower_stays_within_its_log(self) -> None:
        pair = Pair()
        pair.follower.partition.append_as_follower(batch(b"a", partition_leader_epoch=0), 0, high_watermark=100, log_start_offset=0)
        assert pair.follower.log.high_watermark == 1

    def test_of_a_follower_wakes_who_reads_there(self) -> None:
        pair = Pair()
        waiting = pair.follower.reader.fetch(fetch_as(-1, max_wait_ms=500, leader_only=False), [wanted(0)])
        assert isinstance(waiting, Deferred)
        pair.leader.append(b"a")
        for _ in range(3):
            assert not waiting.done
            pair.replicate()
        pair.follower.delayed.drain()
        assert content(waiting.result()[0][1]) != b""

    def test_the_log_start_of_the_leader_comes_along(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.leader.append(b"b")
        for _ in range(3):
            pair.replicate()
        pair.leader.partition.delete_records_before(1)
        pair.replicate()
        assert pair.follower.log.log_start_offset == 1


class TestTruncation:
    def test_goes_on_in_the_epoch_that_both_know_and_asks_again_in_an_earlier_one(self) -> None:
        node = single()
        node.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=9), node.log)
        for offset, epoch in ((0, 1), (1, 1), (2, 4), (3, 4)):
            records = batch(b"x", base_offset=offset, partition_leader_epoch=epoch)
            node.partition.append_as_follower(records, 9, high_watermark=0, log_start_offset=0)
        assert truncate_to_divergence(node.partition.followed_log(), 4, 3) is True
        assert node.log.log_end_offset == 3
        assert truncate_to_divergence(node.partition.followed_log(), 2, 3) is False, (
            "we have no epoch 2: only what came before it can be alike"
        )
        assert node.log.log_end_offset == 2

    def test_is_for_followers_only(self) -> None:
        pair = Pair()
        assert error_of(lambda: truncate_to_divergence(pair.leader.partition.followed_log(), 0, 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestJoining:
    def test_not_without_what_is_committed(self) -> None:
        pair = Pair(isr=(1,))
        pair.leader.append(b"a")
        pair.leader.append(b"b")
        assert pair.leader.log.high_watermark == 2
        for offset, joins in ((1, False), (2, True)):
            [(_, read)] = pair.leader.reader.read(fetch_as(2, replica_epoch=20), [wanted(offset)], update_follower=True)
            read.release()
            assert pair.leader.partition.isr.in_flight == joins

    def test_a_late_answer_to_an_earlier_proposal_takes_nothing_back(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.partition.make_leader(PartitionMetadata(isr=(1,), partition_epoch=4), pair.leader.log)
        pair.replicate()
        second = pair.leader.partition.isr
        assert second.in_flight
        pair.leader.controller.refuse(ErrorCode.INELIGIBLE_REPLICA)
        assert pair.leader.partition.isr is second

    def test_an_answer_of_another_leader_epoch_changes_nothing(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        _, answer = pair.leader.controller.changes.pop()
        answer.complete(IsrAnswer(1, 1, 9, frozenset({1, 2})))
        assert pair.leader.partition.isr.in_flight
        assert pair.leader.partition.partition_epoch == 0

    def test_the_next_proposal_names_the_new_partition_epoch(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.controller.accept()
        pair.leader.append(b"a")
        pair.clock.advance_ms(MAX_LAG_MS + 1)
        pair.leader.partition.maybe_shrink_isr()
        [(change, _)] = pair.leader.controller.changes
        assert (change.partition_epoch, change.leader_epoch, change.isr) == (1, 0, [(1, 10)])

    def test_metadata_that_an_answer_told_before_takes_no_newer_proposal_back(self) -> None:
        clock = ManualClock()
        brokers = Brokers({1: 10, 2: 20, 3: 30})
        leader, second, third = (Node(number, clock, brokers) for number in (1, 2, 3))
        state = PartitionMetadata(replicas=(1, 2, 3), isr=(1,))
        leader.partition.make_leader(state, leader.log)
        for node in (second, third):
            node.partition.make_follower(state, node.log)
        leader.append(b"a")
        for _ in range(2):
            replicate(leader, second, broker_epoch=20)
        leader.controller.accept()
        for _ in range(2):
            replicate(leader, third, broker_epoch=30)
        assert leader.controller.proposed() == [1, 2, 3]
        leader.partition.make_leader(state._replace(isr=(1, 2), partition_epoch=1), leader.log)
        clock.advance_ms(MAX_LAG_MS + 1)
        leader.append(b"b")
        for _ in range(2):
            replicate(leader, second, broker_epoch=20)
        assert leader.log.high_watermark == 1, "the controller may have 3 in the ISR by now, and could elect it"
        leader.controller.accept()
        assert leader.partition.isr.isr == {1, 2, 3}

    def test_a_change_that_failed_is_sent_again_after_a_pause(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        for _ in range(3):
            pair.leader.controller.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            pair.clock.advance_ms(49)
            assert not pair.leader.controller.changes
            pair.clock.advance_ms(1)
            assert pair.leader.controller.proposed() == [1, 2]

    def test_nobody_is_found_lagging_while_a_change_is_under_way(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.clock.advance_ms(MAX_LAG_MS + 1)
        assert pair.leader.partition.out_of_sync_replicas() == {2}
        assert pair.leader.partition.maybe_shrink_isr()
        assert pair.leader.partition.out_of_sync_replicas() == frozenset()
        assert not pair.leader.partition.maybe_shrink_isr()
        assert len(pair.leader.controller.changes) == 1


class TestLagging:
    """replica.lag.time.max.ms counts from the last time at which the follower had all that there was."""

    def fetch(self, pair: Pair, offset: int) -> None:
        [(_, read)] = pair.leader.reader.read(fetch_as(2, replica_epoch=20), [wanted(offset)], update_follower=True)
        read.release()

    def test_a_follower_one_fetch_behind_has_caught_up_as_of_its_former_fetch(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        self.fetch(pair, 0)
        pair.clock.advance_ms(20_000)
        pair.leader.append(b"b")
        self.fetch(pair, 1)  # what there was 20 s ago
        pair.clock.advance_ms(MAX_LAG_MS - 20_000)
        assert not pair.leader.partition.maybe_shrink_isr()
        pair.clock.advance_ms(1)
        assert pair.leader.partition.maybe_shrink_isr()

    def test_fetching_alone_is_not_catching_up(self) -> None:
        pair = Pair()
        for _ in range(100):
            pair.leader.append(b"a")
        for offset in range(40):
            self.fetch(pair, offset)
            pair.clock.advance_ms(1000)
        assert pair.leader.partition.maybe_shrink_isr()

    def test_a_fetch_that_waited_counts_from_when_it_came(self) -> None:
        pair = Pair()
        waiting = pair.leader.reader.fetch(fetch_as(2, replica_epoch=20, max_wait_ms=60_000), [wanted(0, current_leader_epoch=0)])
        assert isinstance(waiting, Deferred)
        pair.clock.advance_ms(20_000)
        pair.leader.append(b"a")
        waiting.result()[0][1].release()
        pair.clock.advance_ms(19_000)
        pair.leader.append(b"b")
        self.fetch(pair, 1)
        assert pair.leader.partition.maybe_shrink_isr(), "it has been 39 s since it had everything"


def test_who_waits_for_a_dead_follower_is_answered_when_the_controller_has_removed_it() -> None:
    pair = Pair()
    consumer = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=10 * MAX_LAG_MS), [wanted(0)])
    assert isinstance(consumer, Deferred)
    pair.leader.append(b"a")
    pair.clock.advance_ms(MAX_LAG_MS + 1)
    pair.leader.partition.maybe_shrink_isr()
    assert not consumer.done
    pair.leader.controller.accept()
    assert content(consumer.result()[0][1]) != b""


def test_records_that_are_not_committed_cannot_be_deleted() -> None:
    pair = Pair()
    pair.leader.append(b"a")
    for _ in range(2):
        pair.replicate()
    pair.leader.append(b"b")
    assert error_of(lambda: pair.leader.partition.delete_records_before(2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    pair.leader.partition.delete_records_before(-1)
    assert pair.leader.log.log_start_offset == 1


def test_a_refused_fetch_leaves_no_segment_open() -> None:
    pair = Pair()
    pair.leader.append(b"a")
    pair.brokers.epochs[2] = 21
    assert replicate(pair.leader, pair.follower, broker_epoch=20).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pair.leader.log.active.pin.readers == 0
    assert pair.leader.log.high_watermark == 0


def test_offline_is_told_to_all_who_wait() -> None:
    pair = Pair()
    waiting = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=500), [wanted(0)])
    assert isinstance(waiting, Deferred)
    pair.leader.partition.mark_offline()
    pair.leader.delayed.drain()
    assert waiting.result()[0][1].error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as caught:
        pair.leader.hosted.find(TP).low_watermark()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
