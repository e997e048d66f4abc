"""The broker's partitions follow the metadata; high watermarks survive; failing disks and topics made anew."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.markers import marker_batch
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.replication.flushing import Flusher
from odradek.replication.high_watermarks import HighWatermarkCheckpoints
from odradek.replication.partition import Partition
from odradek.replication.roles import Role
from odradek.replication.verification import support_of_produce
from odradek.storage.append import AppendOrigin
from odradek.storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint
from odradek.storage.log import Log
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.handlers.support import Broker, batch, topic_id
from tests.replication.support import fetch_as, new_log, wanted

TP = TopicPartition("orders", 0)
CHECKPOINT = "/data/replication-offset-checkpoint"


def append(broker: Broker, acks: int = 1, topic_partition: TopicPartition = TP, **options: Any) -> Any:
    return broker.manager.appender.append(
        [(topic_partition, batch(b"a", **options))], required_acks=acks, timeout_ms=100, origin=AppendOrigin.CLIENT
    )


def test_a_created_topic_is_led_and_a_deleted_one_is_gone() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", partitions=3)
    assert [partition.role for partition in broker.manager.online_partitions()] == [Role.LEADER] * 3
    assert broker.disk.exists("/data/orders-2/partition.metadata")
    old = broker.manager.partition(TP)
    broker.delete_topic(id_)
    assert list(broker.manager.online_partitions()) == []
    assert old.role is Role.DELETED
    assert not broker.disk.exists("/data/orders-0")
    with pytest.raises(KafkaError) as caught:
        broker.manager.partition(TP)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_made_anew_in_one_step_starts_empty() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", number=1)
    append(broker)
    from odradek.protocol.messages.metadata_records import PartitionRecord, RemoveTopicRecord, TopicRecord

    broker.apply(
        RemoveTopicRecord(topic_id=id_),
        TopicRecord(name="orders", topic_id=topic_id(2)),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id(2),
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[topic_id(0)],
        ),
    )
    partition = broker.manager.partition(TP)
    assert (partition.topic_id, broker.log_end("orders")) == (topic_id(2), 0)


def test_roles_change_with_the_leader() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    changes: list[tuple[list[TopicPartition], list[TopicPartition]]] = []
    broker.manager.changes.on_leadership.append(lambda leaders, followers, _: changes.append((list(leaders), list(followers))))
    broker.move_leader(id_, 2)
    assert broker.manager.partition(TP).role is Role.FOLLOWER
    broker.move_leader(id_, 1)
    assert (broker.manager.partition(TP).role, broker.manager.partition(TP).leader_epoch) == (Role.LEADER, 2)
    assert changes == [([], [TP]), ([TP], [])]


def test_a_new_leader_flushes_what_it_has_copied() -> None:
    """Under flush.messages a high watermark waits for the disk, and it may be long until somebody appends."""
    broker = Broker()
    jobs: list[tuple[Callable[[], None], Deferred[None]]] = []

    def later(job: Callable[[], None]) -> Deferred[None]:
        jobs.append((job, Deferred()))
        return jobs[-1][1]

    broker.manager.flusher = Flusher(broker.disk, later)
    id_ = broker.create_topic("orders", leader=2, replicas=(1, 2), flush_messages="1")
    partition = broker.manager.partition(TP)
    partition.append_as_follower(batch(b"a"), 0, high_watermark=0, log_start_offset=0)
    assert jobs == []
    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, leader=1, isr=[1]))
    answer = broker.manager.reader.fetch(fetch_as(-1, max_wait_ms=500), [wanted(0, topic_id=id_)])
    assert isinstance(answer, Deferred)
    assert not answer.done, "not durable yet"
    [(flush, done)] = jobs
    flush()
    done.complete(None)
    [(_, read)] = answer.result()
    assert (read.high_watermark, read.size > 0) == (1, True)
    read.release()


def test_a_new_leader_whose_role_is_tried_again_flushes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", leader=2, replicas=(1, 2), flush_messages="1")
    broker.manager.partition(TP).append_as_follower(batch(b"a"), 0, high_watermark=0, log_start_offset=0)

    def fail(*_: object) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "make_leader", fail)
        broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, leader=1, isr=[1]))
    assert broker.manager.partitions.by_name[TP].role is Role.OFFLINE
    broker.clock.advance_s(1)
    partition = broker.manager.partition(TP)
    assert partition.role is Role.LEADER
    assert partition.log is not None
    assert not partition.log.flush_due


def test_flush_messages_holds_for_every_partition_of_a_request() -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=3, flush_messages="1")
    entries = [(TopicPartition("orders", partition), batch(b"a")) for partition in range(3)]
    answer = broker.manager.appender.append(entries, required_acks=1, timeout_ms=100, origin=AppendOrigin.CLIENT)
    assert isinstance(answer, Deferred)
    assert [each.error for each in answer.result()] == [ErrorCode.NONE] * 3
    assert [broker.manager.partition(each).local_log(-1, leader_only=True).recovery_point for each, _ in entries] == [1] * 3


def test_a_replica_moved_away_is_deleted() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, replicas=[2], isr=[2], leader=2, directories=[topic_id(0)]))
    assert TP not in broker.manager.partitions.by_name
    assert not broker.disk.exists("/data/orders-0")


def test_the_high_watermark_is_restored_from_its_checkpoint() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2), number=3)
    append(broker)
    append(broker)
    log = broker.manager.partition(TP).log
    assert log is not None
    log.update_high_watermark(1)
    broker.manager.checkpoint_high_watermarks()
    assert read_offset_checkpoint(broker.disk, CHECKPOINT) == {TP: 1}
    log.update_high_watermark(0)
    HighWatermarkCheckpoints(broker.disk).restore(log)
    assert log.high_watermark == 1


@pytest.mark.parametrize("content", [b"\0\xff garbage", b"7\n0\n", b"0\n2\norders 0 1\n", b"0\n1\norders 0 many\n"])
def test_a_damaged_checkpoint_counts_as_a_missing_one(content: bytes) -> None:
    broker = Broker()
    broker.disk.write_atomic(CHECKPOINT, content)
    broker.create_topic("orders")
    assert broker.manager.partition(TP).role is Role.LEADER
    append(broker)
    assert broker.manager.checkpoint_high_watermarks() is not None


def test_a_checkpoint_that_cannot_be_read_takes_its_directory_offline() -> None:
    broker = Broker()

    def fail(operation: str, path: str) -> None:
        if path == CHECKPOINT:
            raise OSError(5, "Input/output error", path)

    broker.disk.fault = fail
    broker.create_topic("orders")
    assert broker.manager.partition(TP).role is Role.OFFLINE
    assert broker.parts.log_manager.online_directories == []


def test_an_unchanged_checkpoint_is_not_written_again() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker)
    assert broker.manager.checkpoint_high_watermarks() is not None
    assert broker.manager.checkpoint_high_watermarks() is None


def test_closing_answers_who_waits_and_writes_the_checkpoint() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    waiting = append(broker, acks=-1)
    assert isinstance(waiting, Deferred)
    broker.manager.close()
    assert waiting.done
    assert read_offset_checkpoint(broker.disk, CHECKPOINT) == {TP: 0}


def test_a_checkpoint_that_is_late_at_the_end_does_not_replace_the_last_one() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    append(broker)
    jobs: list[Callable[[], None]] = []

    def later(job: Callable[[], None]) -> Deferred[None]:
        jobs.append(job)
        return Deferred()

    broker.manager.run_job = later
    assert broker.manager.checkpoint_high_watermarks() is not None
    log = broker.manager.partition(TP).log
    assert log is not None
    log.update_high_watermark(1)
    broker.manager.close()
    assert read_offset_checkpoint(broker.disk, CHECKPOINT) == {TP: 1}
    jobs[0]()
    assert read_offset_checkpoint(broker.disk, CHECKPOINT) == {TP: 1}


def test_a_checkpoint_is_written_under_a_lock_as_all_use_one_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[threading.Lock] = []

    def new_lock() -> threading.Lock:
        locks.append(threading.Lock())
        return locks[-1]

    broker = Broker(new_lock=new_lock)
    broker.create_topic("orders", replicas=(1, 2))
    append(broker)
    locked: list[int] = []
    rename = broker.disk.rename

    def renamed(source: str, target: str) -> None:
        if target == CHECKPOINT:
            locked.append(sum(lock.locked() for lock in locks))
        rename(source, target)

    monkeypatch.setattr(broker.disk, "rename", renamed)
    broker.manager.checkpoint_high_watermarks()
    log = broker.manager.partition(TP).log
    assert log is not None
    log.update_high_watermark(1)
    broker.manager.close()
    assert locked == [1, 1]
    assert not any(lock.locked() for lock in locks)


def test_a_failed_directory_takes_its_partitions_offline_and_answers_who_waits() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    waiting = append(broker, acks=-1)
    broker.parts.log_manager.directory_failed("/data", OSError(5, "gone"))
    broker.clock.run_due()
    assert waiting.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.manager.partition(TP).role is Role.OFFLINE
    broker.move_leader(topic_id(1), 2)
    assert append(broker)[0].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failing_checkpoint_takes_the_directory_offline() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker)

    def fail(operation: str, path: str) -> None:
        if path.startswith(CHECKPOINT):
            raise OSError(28, "No space left on device", path)

    broker.disk.fault = fail
    broker.manager.checkpoint_high_watermarks()
    assert broker.manager.partition(TP).role is Role.OFFLINE


def test_a_lagging_follower_is_reported_to_the_controller() -> None:
    broker = Broker(replica_lag_time_max_ms="1000")
    broker.create_topic("orders", replicas=(1, 2))
    append(broker)
    broker.clock.advance_ms(1001)
    broker.manager.shrink_isrs()
    broker.clock.run_due()
    [(request, _)] = broker.alter_partition_requests
    [partition] = request.topics[0].partitions
    assert [(state.broker_id, state.broker_epoch) for state in partition.new_isr_with_epochs] == [(1, 100)]


def test_delete_records_moves_the_log_start_up_to_the_high_watermark() -> None:
    broker = Broker()
    broker.create_topic("orders")
    for _ in range(3):
        append(broker)
    partition = broker.manager.partition(TP)
    assert partition.delete_records_before(2) == (2, 2)
    for offset in (4, -2):
        with pytest.raises(KafkaError) as caught:
            partition.delete_records_before(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records_before(-1) == (3, 3)


class TestVerification:
    """KIP-890: a transactional append waits until the coordinator has confirmed it."""

    class Coordinator:
        def __init__(self) -> None:
            self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...]]] = []
            self.answer: Deferred[dict[TopicPartition, ErrorCode]] = Deferred()

        def verify(
            self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Any, support: Any, again: Any = None
        ) -> Any:
            self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions)))
            self.again = again
            return self.answer

    def setup_method(self) -> None:
        self.broker = Broker()
        self.broker.create_topic("orders")
        self.coordinator = self.Coordinator()
        self.broker.manager.verified_appender.verifier = self.coordinator

    def produce(self, sequence: int = 0, version: int = 11, *, topic: str = "orders", internal_topics_allowed: bool = False) -> Any:
        records = batch(b"t", producer_id=7, producer_epoch=3, base_sequence=sequence, transactional=True)
        return self.broker.manager.verified_appender.append(
            [(TopicPartition(topic, 0), records)],
            required_acks=1,
            timeout_ms=100,
            origin=AppendOrigin.CLIENT,
            transactional_id="mine",
            support=support_of_produce(version),
            internal_topics_allowed=internal_topics_allowed,
        )

    @pytest.mark.parametrize(("allowed", "told"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_TOPIC_EXCEPTION)])
    def test_who_may_write_internal_topics_may_do_so_once_confirmed(self, allowed: bool, told: ErrorCode) -> None:
        self.broker.create_topic("__consumer_offsets", number=2)
        answer = self.produce(topic="__consumer_offsets", internal_topics_allowed=allowed)
        self.coordinator.answer.complete({})
        assert answer.result()[0].error is told

    def test_is_appended_once_confirmed_and_not_asked_about_again(self) -> None:
        answer = self.produce()
        assert not answer.done
        assert self.broker.log_end("orders") == 0
        assert self.coordinator.asked == [("mine", 7, 3, (TP,))]
        self.coordinator.answer.complete({})
        assert answer.result()[0].error is ErrorCode.NONE
        assert self.produce(sequence=1)[0].base_offset == 1
        assert len(self.coordinator.asked) == 1

    @pytest.mark.parametrize(
        ("refusal", "told"),
        [
            (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
            (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    )
    def test_is_refused_when_the_coordinator_does(self, refusal: ErrorCode, told: ErrorCode) -> None:
        answer = self.produce()
        self.coordinator.answer.complete({TP: refusal})
        assert answer.result()[0].error is told
        assert self.broker.log_end("orders") == 0

    @pytest.mark.parametrize(("version", "told"), [(11, ErrorCode.NOT_ENOUGH_REPLICAS), (12, ErrorCode.CONCURRENT_TRANSACTIONS)])
    def test_who_has_partitions_added_knows_that_a_transaction_is_being_ended(self, version: int, told: ErrorCode) -> None:
        answer = self.produce(version=version)
        self.coordinator.answer.complete({TP: ErrorCode.CONCURRENT_TRANSACTIONS})
        assert answer.result()[0].error is told

    def test_the_marker_that_is_waited_for_does_not_take_the_guard(self) -> None:
        answer = self.produce(version=12)
        marker = marker_batch(7, 2, 0, committed=True, now_ms=0)
        self.broker.manager.partition(TP).append_as_leader(memoryview(marker), -1, AppendOrigin.COORDINATOR)
        assert tuple(self.coordinator.again()) == (TP,)
        self.coordinator.answer.complete({})
        assert answer.result()[0].error is ErrorCode.NONE

    def test_is_retriable_when_the_coordinator_cannot_be_asked(self) -> None:
        answer = self.produce()
        self.coordinator.answer.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        assert answer.result()[0].error is ErrorCode.NOT_ENOUGH_REPLICAS

    def test_switched_off_it_still_adds_the_partitions_of_those_who_rely_on_it(self) -> None:
        self.broker.manager.verify_transactions(False)
        answer = self.produce(version=12)
        assert len(self.coordinator.asked) == 1
        self.coordinator.answer.complete({})
        assert answer.result()[0].error is ErrorCode.NONE

    def test_switched_on_at_run_time_the_same_coordinator_is_asked(self) -> None:
        self.broker.manager.verify_transactions(False)
        self.broker.manager.verify_transactions(True)
        assert not self.produce().done
        assert len(self.coordinator.asked) == 1

    def test_switched_off_nobody_is_asked_about_the_others(self) -> None:
        self.broker = Broker(transaction_partition_verification_enable="false")
        self.broker.create_topic("orders")
        self.broker.manager.verified_appender.verifier = self.coordinator
        assert self.produce(version=11)[0].base_offset == 0
        assert self.coordinator.asked == []

    def test_an_older_epoch_is_refused_before_anybody_is_asked(self) -> None:
        answer = self.produce()
        self.coordinator.answer.complete({})
        assert answer.result()[0].error is ErrorCode.NONE
        records = batch(b"t", producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
        late = self.broker.manager.verified_appender.append(
            [(TP, records)],
            required_acks=1,
            timeout_ms=100,
            origin=AppendOrigin.CLIENT,
            transactional_id="mine",
            support=support_of_produce(12),
        )
        assert late.result()[0].error is ErrorCode.INVALID_PRODUCER_EPOCH
        assert len(self.coordinator.asked) == 1

    def test_two_producers_in_one_request_are_refused(self) -> None:
        self.broker.create_topic("others", number=2)
        entries = [
            (key, batch(b"t", producer_id=id_, producer_epoch=0, base_sequence=0, transactional=True))
            for id_, key in ((1, TP), (2, TopicPartition("others", 0)))
        ]
        with pytest.raises(KafkaError) as caught:
            self.broker.manager.verified_appender.append(
                entries,
                required_acks=1,
                timeout_ms=100,
                origin=AppendOrigin.CLIENT,
                transactional_id="mine",
                support=support_of_produce(11),
            )
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


class TestCheckpoints:
    def restored(self, saved: int, log: Log, disk: VirtualDisk) -> int:
        disk.makedirs("/data")
        write_offset_checkpoint(disk, CHECKPOINT, {TP: saved})
        HighWatermarkCheckpoints(disk).restore(log)
        return log.high_watermark

    def test_are_restored_within_the_log(self) -> None:
        for saved, restored in ((0, 2), (3, 3), (100, 4)):
            disk = VirtualDisk()
            log = new_log(ManualClock(), disk=disk)
            log.append_as_leader(batch(b"a", b"b", b"c", b"d"), 0)
            log.update_high_watermark(2)
            log.maybe_increment_log_start_offset(2)
            assert self.restored(saved, log, disk) == restored

    def test_hold_for_one_log_and_not_for_a_later_one_of_that_name(self) -> None:
        disk = VirtualDisk()
        disk.makedirs("/data")
        write_offset_checkpoint(disk, CHECKPOINT, {TP: 3})
        checkpoints = HighWatermarkCheckpoints(disk)
        for restored in (3, 0):
            log = new_log(ManualClock())
            log.append_as_leader(batch(b"a", b"b", b"c", b"d"), 0)
            checkpoints.restore(log)
            assert log.high_watermark == restored

    def test_are_written_again_when_that_failed(self) -> None:
        disk = VirtualDisk()
        log = new_log(ManualClock(), disk=disk)
        checkpoints = HighWatermarkCheckpoints(disk)
        collected = checkpoints.collect([log])
        disk.fail("/data", "write")
        assert [directory for directory, _ in checkpoints.write(collected)] == ["/data"]
        assert checkpoints.collect([log]) == collected


class Fetchers:
    """Notes who is to be copied from."""

    def __init__(self) -> None:
        self.done: list[tuple[str, list[int]]] = []

    def start(self, partitions: Sequence[Partition]) -> None:
        self.done.append(("start", [each.leader_id for each in partitions]))

    def stop(self, topic_partitions: Collection[TopicPartition]) -> None:
        self.done.append(("stop", sorted([each.partition for each in topic_partitions])))


def test_fetchers_follow_the_leader() -> None:
    broker = Broker(nodes=(1, 2, 3))
    fetchers = broker.manager.changes.fetchers = Fetchers()
    id_ = broker.create_topic("orders", replicas=(1, 2, 3), leader=2)
    assert fetchers.done.pop() == ("start", [2])
    broker.move_leader(id_, 3)
    assert fetchers.done[-2:] == [("stop", [0]), ("start", [3])]
    fetchers.done.clear()
    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, isr=[3]))
    assert fetchers.done == []
    broker.move_leader(id_, 1)
    assert fetchers.done == [("stop", [0])]
    broker.move_leader(id_, 2)
    fetchers.done.clear()
    broker.delete_topic(id_)
    assert fetchers.done == [("stop", [0])]


def test_fetchers_hear_of_a_change_once_for_all_its_partitions() -> None:
    broker = Broker(nodes=(1, 2, 3))
    fetchers = broker.manager.changes.fetchers = Fetchers()
    id_ = broker.create_topic("orders", partitions=4, replicas=(1, 2, 3), leader=2)
    assert fetchers.done == [("stop", [0, 1, 2, 3]), ("start", [2] * 4)]
    fetchers.done.clear()
    leaders = {0: 1, 1: 3, 2: 1, 3: -1}
    broker.apply(*[PartitionChangeRecord(partition_id=number, topic_id=id_, leader=leader) for number, leader in leaders.items()])
    assert fetchers.done == [("stop", [0, 1, 2, 3]), ("start", [3, -1])]


def test_who_reads_behind_a_new_log_start_is_told() -> None:
    broker = Broker()
    broker.create_topic("orders")
    for _ in range(3):
        append(broker)
    waiting = broker.manager.reader.fetch(fetch_as(-1, max_wait_ms=500, min_bytes=100_000), [wanted(0, topic_id=topic_id(1))])
    assert isinstance(waiting, Deferred)
    broker.manager.deleter.delete_records({TP: 2}, 0)
    assert waiting.result()[0][1].error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_closing_answers_readers_too() -> None:
    broker = Broker()
    broker.create_topic("orders")
    waiting = broker.manager.reader.fetch(fetch_as(-1, max_wait_ms=500), [wanted(0, topic_id=topic_id(1))])
    assert isinstance(waiting, Deferred)
    broker.manager.close()
    assert waiting.done
