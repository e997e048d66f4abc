"""Two replicas of a partition in memory: what the leader acknowledges, and what it lets others see."""

from __future__ import annotations

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.replication.appender import Appender
from odradek.replication.delayed_produce import Appends
from odradek.replication.flushing import Flusher
from odradek.replication.isr import CommittedIsr, PendingExpandIsr, PendingShrinkIsr
from odradek.replication.roles import Role
from odradek.storage.append import AppendOrigin
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.replication.partition_support import Pair, error_of
from tests.replication.support import MAX_LAG_MS, TP, Brokers, Node, PartitionMetadata, batch, content, fetch_as, replicate, wanted


def test_the_high_watermark_waits_for_the_follower() -> None:
    pair = Pair()
    pair.leader.append(b"a", b"b")
    assert (pair.leader.log.log_end_offset, pair.leader.log.high_watermark) == (2, 0)
    pair.replicate()  # brings the records
    assert (pair.follower.log.log_end_offset, pair.leader.log.high_watermark) == (2, 0)
    pair.replicate()  # tells the leader that they have arrived
    assert (pair.follower.log.high_watermark, pair.leader.log.high_watermark) == (0, 2)
    pair.replicate()  # hears of it, one fetch later
    assert pair.follower.log.high_watermark == 2


def test_consumers_see_nothing_above_the_high_watermark() -> None:
    pair = Pair()
    pair.leader.append(b"a")
    [(_, read)] = pair.leader.reader.read(fetch_as(-1), [wanted(0)], update_follower=False)
    assert (read.error, read.size, read.high_watermark) == (ErrorCode.NONE, 0, 0)
    for _ in range(3):
        pair.replicate()
    [(_, read)] = pair.leader.reader.read(fetch_as(-1), [wanted(0)], update_follower=False)
    assert (
        content(read)
        == content(pair.follower.reader.read(fetch_as(-1, leader_only=False), [wanted(0)], update_follower=False)[0][1])
        != b""
    )


def test_replicas_are_byte_equal() -> None:
    pair = Pair()
    for value in (b"a", b"b" * 5000, b""):
        pair.leader.append(value)
    pair.replicate()
    [(_, ours)] = pair.leader.reader.read(fetch_as(-2), [wanted(0)], update_follower=False)
    [(_, theirs)] = pair.follower.reader.read(fetch_as(-2, leader_only=False), [wanted(0)], update_follower=False)
    assert content(ours) == content(theirs)


def test_an_append_with_too_small_an_isr_is_refused_before_it_is_written() -> None:
    pair = Pair(isr=(1,), min_insync_replicas="2")
    assert error_of(lambda: pair.leader.append(b"a", acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert pair.leader.log.log_end_offset == 0
    pair.leader.append(b"a", acks=1)
    assert (pair.leader.log.log_end_offset, pair.leader.log.high_watermark) == (1, 0)


def test_min_insync_replicas_is_capped_by_the_number_of_replicas() -> None:
    clock = ManualClock()
    node = Node(1, clock, Brokers({1: 10}), min_insync_replicas="3")
    node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), node.log)
    node.append(b"a", acks=-1)
    assert node.log.high_watermark == 1


class TestEpochs:
    def test_requests_of_older_and_newer_epochs_are_fenced(self) -> None:
        pair = Pair()
        pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=5, partition_epoch=3), pair.leader.log)
        for epoch, code in (
            (4, ErrorCode.FENCED_LEADER_EPOCH),
            (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (5, ErrorCode.NONE),
            (-1, ErrorCode.NONE),
        ):
            [(_, read)] = pair.leader.reader.read(fetch_as(-1), [wanted(0, current_leader_epoch=epoch)], update_follower=False)
            assert read.error is code

    def test_a_follower_is_told_that_it_does_not_lead(self) -> None:
        pair = Pair()
        assert error_of(lambda: pair.follower.append(b"a")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        [(_, read)] = pair.follower.reader.read(fetch_as(-1), [wanted(0)], update_follower=False)
        assert read.error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_an_unknown_replica_must_retry(self) -> None:
        pair = Pair()
        for epoch, code in ((0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            [(_, read)] = pair.leader.reader.read(fetch_as(3), [wanted(0, current_leader_epoch=epoch)], update_follower=True)
            assert read.error is code

    def test_what_an_old_leader_sent_late_is_not_stored(self) -> None:
        pair = Pair()
        pair.follower.partition.make_follower(PartitionMetadata(leader_epoch=1, partition_epoch=1), pair.follower.log)
        late = batch(b"late", partition_leader_epoch=0)
        append = pair.follower.partition.append_as_follower
        assert error_of(lambda: append(late, 0, high_watermark=0, log_start_offset=0)) is ErrorCode.FENCED_LEADER_EPOCH
        assert pair.follower.log.log_end_offset == 0

    def test_metadata_older_than_what_is_known_changes_nothing(self) -> None:
        pair = Pair()
        pair.leader.partition.make_leader(PartitionMetadata(partition_epoch=4), pair.leader.log)
        assert pair.leader.partition.make_leader(PartitionMetadata(leader=2, partition_epoch=3, isr=(2,)), pair.leader.log) is False
        assert pair.leader.partition.isr.isr == {1, 2}

    def test_an_old_leader_cuts_what_the_new_one_never_got(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        pair.replicate()
        pair.leader.append(b"lost")  # never replicated
        elected = PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=1)
        pair.follower.partition.make_leader(elected, pair.follower.log)
        pair.leader.partition.make_follower(elected, pair.leader.log)
        pair.follower.append(b"new")
        assert replicate(pair.follower, pair.leader, broker_epoch=10).diverging_epoch == (0, 1)
        replicate(pair.follower, pair.leader, broker_epoch=10)
        replicate(pair.follower, pair.leader, broker_epoch=10)
        assert pair.leader.log.log_end_offset == pair.follower.log.log_end_offset == 2
        assert pair.follower.log.high_watermark == 2
        [(_, ours)] = pair.leader.reader.read(fetch_as(-2, leader_only=False), [wanted(0)], update_follower=False)
        [(_, theirs)] = pair.follower.reader.read(fetch_as(-2), [wanted(0)], update_follower=False)
        assert content(ours) == content(theirs)


def test_a_follower_takes_over_the_leaders_log_start_when_its_high_watermark_has_come_so_far() -> None:
    pair = Pair()
    follower = pair.follower
    follower.partition.append_as_follower(batch(b"a", b"b", b"c"), 0, high_watermark=1, log_start_offset=2)
    assert (follower.log.log_start_offset, follower.log.high_watermark, follower.log.log_end_offset) == (0, 1, 3)
    follower.partition.append_as_follower(memoryview(b""), 0, high_watermark=3, log_start_offset=2)
    assert (follower.log.log_start_offset, follower.log.high_watermark) == (2, 3)


def test_an_empty_follower_begins_with_the_batch_that_holds_the_leaders_log_start() -> None:
    pair = Pair(isr=(1,))
    pair.leader.append(b"a", b"b", b"c")
    pair.leader.partition.delete_records_before(2)
    pair.follower.log.truncate_fully_and_start_at(2)  # as after OFFSET_OUT_OF_RANGE
    for _ in range(3):
        pair.replicate()
    assert (pair.follower.log.log_start_offset, pair.follower.log.log_end_offset, pair.follower.log.high_watermark) == (2, 3, 3)


class TestInSyncReplicas:
    def test_a_follower_that_stops_fetching_is_proposed_for_removal(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        pair.clock.advance_ms(MAX_LAG_MS)
        assert not pair.leader.partition.maybe_shrink_isr()
        pair.clock.advance_ms(1)
        assert pair.leader.partition.maybe_shrink_isr()
        assert pair.leader.controller.proposed() == [1]
        assert isinstance(pair.leader.partition.isr, PendingShrinkIsr)
        assert pair.leader.log.high_watermark == 0, "the follower counts until the controller has removed it"
        pair.leader.controller.accept()
        assert pair.leader.partition.isr.isr == {1}
        assert pair.leader.partition.partition_epoch == 1
        assert pair.leader.log.high_watermark == 1

    def test_a_follower_at_the_log_end_stays_however_long_nothing_comes(self) -> None:
        pair = Pair()
        pair.leader.append(b"a")
        pair.replicate()
        pair.replicate()
        pair.clock.advance_ms(10 * MAX_LAG_MS)
        assert not pair.leader.partition.maybe_shrink_isr()

    @pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
    def test_a_jump_of_the_wall_clock_removes_nobody(self, jump_ms: int) -> None:
        pair = Pair()
        pair.replicate()
        pair.leader.append(b"a")
        pair.clock.set_wall_ms(pair.clock.time_ms() + jump_ms)
        assert not pair.leader.partition.maybe_shrink_isr()
        pair.clock.advance_ms(MAX_LAG_MS + 1)
        assert pair.leader.partition.maybe_shrink_isr(), "and who stops fetching is removed in time all the same"

    def test_a_follower_that_has_never_fetched_is_not_caught_up_on_a_machine_that_has_just_started(self) -> None:
        pair = Pair(isr=(1,))
        pair.leader.append(b"a")
        assert not pair.leader.partition.follower(2, 0).is_caught_up(1, pair.clock.monotonic(), MAX_LAG_MS / 1000)

    def test_a_follower_always_a_little_behind_stays(self) -> None:
        pair = Pair()
        for _ in range(5):
            pair.leader.append(b"a")
            pair.replicate()
            pair.clock.advance_ms(MAX_LAG_MS / 2)
            pair.leader.append(b"b")  # before the follower asks again: it never reaches the log end
        assert not pair.leader.partition.maybe_shrink_isr()

    def test_a_follower_that_catches_up_is_proposed_and_then_counts(self) -> None:
        pair = Pair(isr=(1,))
        pair.leader.append(b"a")
        assert pair.leader.log.high_watermark == 1, "a replica outside the ISR that never fetched does not hold it back"
        pair.replicate()
        pair.replicate()
        assert isinstance(pair.leader.partition.isr, PendingExpandIsr)
        assert pair.leader.controller.changes[0][0].isr == [(1, 10), (2, 20)]
        pair.leader.append(b"b")
        assert pair.leader.log.high_watermark == 1, "it counts from the proposal on"
        pair.leader.controller.accept()
        assert pair.leader.partition.isr.isr == {1, 2}
        pair.replicate()
        pair.replicate()
        assert pair.leader.log.high_watermark == 2

    @pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
    def test_a_refused_change_is_taken_back(self, code: ErrorCode) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.controller.refuse(code)
        assert isinstance(pair.leader.partition.isr, CommittedIsr)
        assert pair.leader.partition.isr.isr == {1}

    @pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED])
    def test_when_overtaken_the_change_stays_pending_until_metadata_comes(self, code: ErrorCode) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.controller.refuse(code)
        pair.clock.advance_ms(1000)
        assert pair.leader.partition.isr.in_flight
        assert not pair.leader.controller.changes
        pair.leader.partition.make_leader(PartitionMetadata(isr=(1, 2), partition_epoch=2), pair.leader.log)
        assert not pair.leader.partition.isr.in_flight

    def test_an_answer_after_newer_metadata_is_ignored(self) -> None:
        pair = Pair(isr=(1,))
        pair.replicate()
        pair.leader.partition.make_leader(PartitionMetadata(isr=(1,), leader_epoch=1, partition_epoch=5), pair.leader.log)
        pair.leader.controller.accept()
        assert pair.leader.partition.isr.isr == {1}
        assert pair.leader.partition.partition_epoch == 5

    def test_fenced_leaving_or_restarted_brokers_do_not_join(self) -> None:
        for spoil in ("fenced", "leaving", "restarted"):
            pair = Pair(isr=(1,))
            if spoil == "fenced":
                del pair.brokers.epochs[2]
            elif spoil == "leaving":
                pair.brokers.shutting_down.add(2)
            else:
                pair.brokers.epochs[2] = 19
            pair.replicate()
            assert not pair.leader.partition.isr.in_flight, spoil

    def test_a_fetch_of_an_earlier_incarnation_is_refused(self) -> None:
        pair = Pair()
        pair.brokers.epochs[2] = 21
        assert replicate(pair.leader, pair.follower, broker_epoch=20).error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_follower_joins_only_with_the_start_of_the_epoch(self) -> None:
        pair = Pair(isr=(1,), min_insync_replicas="2")
        pair.leader.append(b"a")
        pair.leader.append(b"b")  # under the minimum: the high watermark stays at 0
        pair.leader.partition.make_leader(PartitionMetadata(isr=(1,), leader_epoch=1, partition_epoch=1), pair.leader.log)
        pair.follower.partition.make_follower(PartitionMetadata(isr=(1,), leader_epoch=1, partition_epoch=1), pair.follower.log)
        [(_, read)] = pair.leader.reader.read(fetch_as(2, replica_epoch=20), [wanted(1)], update_follower=True)
        read.release()
        assert not pair.leader.partition.isr.in_flight
        [(_, read)] = pair.leader.reader.read(fetch_as(2, replica_epoch=20), [wanted(2)], update_follower=True)
        assert pair.leader.partition.isr.in_flight


class TestAcksAll:
    def setup_method(self) -> None:
        self.pair = Pair()
        leader = self.pair.leader
        flusher = Flusher(VirtualDisk(), lambda job: Deferred.of(job()))
        self.appender = Appender(leader.hosted, leader.delayed, flusher)

    def produce(self, timeout_ms: int = 1000) -> Deferred[Appends]:
        answer = self.appender.append([(TP, batch(b"a"))], required_acks=-1, timeout_ms=timeout_ms, origin=AppendOrigin.CLIENT)
        assert isinstance(answer, Deferred)
        return answer

    def test_is_answered_when_the_follower_has_it(self) -> None:
        answer = self.produce()
        self.pair.replicate()
        assert not answer.done
        self.pair.replicate()
        assert [(append.error, append.base_offset) for append in answer.result()] == [(ErrorCode.NONE, 0)]
        assert len(self.pair.leader.delayed.acks) == 0

    def test_times_out(self) -> None:
        answer = self.produce(timeout_ms=1000)
        self.pair.clock.advance_ms(999)
        assert not answer.done
        self.pair.clock.advance_ms(1)
        assert [(append.error, append.base_offset) for append in answer.result()] == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
        assert len(self.pair.leader.delayed.acks) == 0

    def test_fails_when_the_leader_steps_down(self) -> None:
        answer = self.produce()
        self.pair.leader.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=1), self.pair.leader.log)
        self.pair.leader.delayed.drain()
        assert answer.result()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_fails_when_the_partition_is_deleted(self) -> None:
        answer = self.produce()
        self.pair.leader.hosted.by_name.pop(TP).mark_deleted()
        self.pair.leader.delayed.drain()
        assert answer.result()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_is_not_enough_when_the_isr_has_shrunk_below_the_minimum(self) -> None:
        pair = self.pair = Pair(min_insync_replicas="2")
        self.appender = Appender(pair.leader.hosted, pair.leader.delayed, Flusher(VirtualDisk(), lambda job: Deferred.of(job())))
        answer = self.produce(timeout_ms=10 * MAX_LAG_MS)
        pair.replicate()
        pair.replicate()
        assert answer.result()[0].error is ErrorCode.NONE
        answer = self.produce(timeout_ms=10 * MAX_LAG_MS)
        pair.clock.advance_ms(MAX_LAG_MS + 1)
        pair.leader.partition.maybe_shrink_isr()
        pair.leader.controller.accept()
        assert not answer.done, "below the minimum the high watermark stands still"
        assert pair.leader.log.high_watermark == 1
        pair.clock.advance_ms(10 * MAX_LAG_MS)
        assert answer.result()[0].error is ErrorCode.REQUEST_TIMED_OUT


class TestDelayedFetch:
    def test_is_answered_by_the_append_that_fills_it(self) -> None:
        pair = Pair(isr=(1,))
        answer = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=500, min_bytes=200), [wanted(0)])
        assert isinstance(answer, Deferred)
        pair.leader.append(b"a" * 50)
        assert not answer.done
        pair.leader.append(b"b" * 100)
        [(_, read)] = answer.result()
        assert len(content(read)) >= 200
        assert len(pair.leader.delayed.fetch) == 0

    def test_answers_with_what_there_is_when_time_is_up(self) -> None:
        pair = Pair(isr=(1,))
        answer = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=500, min_bytes=1 << 20), [wanted(0)])
        assert isinstance(answer, Deferred)
        pair.leader.append(b"a")
        pair.clock.advance_ms(500)
        [(_, read)] = answer.result()
        assert content(read) != b""

    def test_of_a_follower_is_woken_by_records_that_consumers_may_not_see_yet(self) -> None:
        pair = Pair()
        consumer = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=500), [wanted(0)])
        follower = pair.leader.reader.fetch(fetch_as(2, max_wait_ms=500, replica_epoch=20), [wanted(0, current_leader_epoch=0)])
        assert isinstance(consumer, Deferred)
        assert isinstance(follower, Deferred)
        pair.leader.append(b"a")
        assert follower.done
        assert not consumer.done
        follower.result()[0][1].release()

    def test_is_answered_when_the_leader_steps_down(self) -> None:
        pair = Pair()
        answer = pair.leader.reader.fetch(fetch_as(-1, max_wait_ms=500), [wanted(0)])
        assert isinstance(answer, Deferred)
        pair.leader.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=1, partition_epoch=1), pair.leader.log)
        pair.leader.delayed.drain()
        assert answer.result()[0][1].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_roles_change_only_as_the_table_says() -> None:
    pair = Pair()
    pair.leader.partition.mark_offline()
    assert pair.leader.partition.role is Role.OFFLINE
    assert error_of(lambda: pair.leader.append(b"a")) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(RuntimeError, match="offline to leader"):
        pair.leader.partition.make_leader(PartitionMetadata(partition_epoch=9), pair.leader.log)


def test_a_flush_that_is_due_holds_back_acknowledgement_and_high_watermark() -> None:
    clock = ManualClock()
    node = Node(1, clock, Brokers({1: 10}), flush_messages="1")
    node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), node.log)
    jobs: list[tuple[object, Deferred[None]]] = []

    def run_job(job: object) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        jobs.append((job, done))
        return done

    appender = Appender(node.hosted, node.delayed, Flusher(VirtualDisk(), run_job))
    first = appender.append([(TP, batch(b"a"))], required_acks=1, timeout_ms=100, origin=AppendOrigin.CLIENT)
    second = appender.append([(TP, batch(b"b"))], required_acks=-1, timeout_ms=100, origin=AppendOrigin.CLIENT)
    assert isinstance(first, Deferred)
    assert isinstance(second, Deferred)
    assert node.log.high_watermark == 0
    assert len(jobs) == 1, "one flush at a time"
    jobs[0][1].complete(None)
    assert first.done
    assert not second.done
    assert node.log.high_watermark == 1
    jobs[1][1].complete(None)
    assert second.result()[0].error is ErrorCode.NONE
    assert node.log.high_watermark == 2


def test_a_failed_flush_is_never_a_success() -> None:
    clock = ManualClock()
    node = Node(1, clock, Brokers({1: 10}), flush_messages="1")
    node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), node.log)
    appender = Appender(node.hosted, node.delayed, Flusher(VirtualDisk(), lambda job: Deferred.failed(OSError(5, "gone"))))
    answer = appender.append([(TP, batch(b"a"))], required_acks=1, timeout_ms=100, origin=AppendOrigin.CLIENT)
    assert isinstance(answer, Deferred)
    assert answer.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert node.log.high_watermark == 0
