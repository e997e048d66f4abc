"""Replicas that move between log directories while they are written, cut, deleted, and while disks fail."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.config.broker import standalone_config
from odradek.metadata.cache import MetadataCache
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.metadata.registrations import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from odradek.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from odradek.records.batch import decode_batch, encode_batch, iter_headers
from odradek.replication.future_replicas import MoveState
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.replication.roles import Role
from odradek.storage.append import AppendOrigin
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.log import Log
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import PowerCut, VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import checkpoint_recovery_points, load_all

TP = TopicPartition("orders", 0)
TOPIC = UUID(int=(1 << 64) + 7)
A, B = UUID(int=(5 << 64) + 1), UUID(int=(5 << 64) + 2)
PATHS = {A: "/a", B: "/b"}


class FutureReplicasWorld:
    """A broker with two log directories; jobs run when the test says so, the controller agrees when it does."""

    def __init__(self, disk: VirtualDisk | None = None, *, settings: dict[str, str] | None = None, directory: UUID = A) -> None:
        self.clock = ManualClock()
        self.disk = disk or VirtualDisk()
        for path in PATHS.values():
            self.disk.makedirs(path)
            self.disk.fsync_dir("/")
        config = standalone_config({"node.id": "1", "log.dirs": "/a,/b", **(settings or {})})
        self.logs = LogManager(
            self.disk, self.clock, ["/a", "/b"], config, random=random.Random(5), directory_ids={v: k for k, v in PATHS.items()}
        )
        self.metadata = MetadataCache(EMPTY)
        self.jobs: list[tuple[Callable[[], None], Deferred[None]]] = []
        self.assigned: list[tuple[UUID, Deferred[None]]] = []
        self.manager = ReplicaManager(
            config,
            clock=self.clock,
            disk=self.disk,
            rng=random.Random(7),
            log_manager=self.logs,
            metadata=self.metadata,
            send_alter_partition=lambda request: Deferred(),
            broker_epoch=lambda: 1,
            run_job=self._run_job,
            assign=self._assign,
        )
        self.logs.on_directory_failure = lambda path, error: self.manager.directory_failed(path)
        self.logs.on_created = lambda: None
        self.config_overrides = {"internal.segment.bytes": "3000"}
        load_all(self.logs, lambda _: self.topic_config())
        self.logs.settle_moves(lambda topic_partition, topic_id: directory)
        self.epoch = 0
        self.apply(
            TopicRecord(name="orders", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0, directories=[directory]
            ),
        )

    def topic_config(self) -> Any:
        return self.manager.dynamic_config.topic_config(self.config_overrides)

    def apply(self, *records: object) -> None:
        delta = MetadataDelta(self.metadata.image)
        for record in records:
            delta.replay(record)
        self.metadata.image = delta.apply(MetadataProvenance(self.metadata.image.offset + len(records), 1, 0))
        self.manager.changes.apply(delta, self.metadata.image)
        for log in self.logs.logs:
            log.update_config(self.topic_config())

    def _run_job(self, job: Callable[[], None]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.jobs.append((job, done))
        return done

    def _assign(self, partition: TopicIdPartition, directory: UUID) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.assigned.append((directory, done))
        return done

    def run_job(self) -> None:
        job, done = self.jobs.pop(0)
        try:
            job()
        except Exception as error:
            done.fail(error)
        else:
            done.complete(None)

    def step(self) -> None:
        """One thing that is due: a job, or what the clock has next."""
        if self.jobs:
            self.run_job()
        else:
            self.clock.advance_ms(20)

    def accept(self) -> None:
        directory, done = self.assigned.pop(0)
        self.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=[directory]))
        done.complete(None)

    def settle(self, *, between: Callable[[], object] = lambda: None, until: Callable[[], bool] | None = None, accept: bool = True) -> None:
        """Runs everything until the move is over."""
        over = until or (lambda: not self.moving)
        for _ in range(10_000):
            if over():
                return
            if accept and self.assigned:
                self.accept()
            self.step()
            between()
        raise AssertionError("the move does not end")

    def sync(self) -> None:
        self.logs.finish_checkpoints(write_checkpoints(self.logs.names.begin()))

    @property
    def moving(self) -> bool:
        return TP in self.manager.future_replicas.moves

    @property
    def partition(self) -> Partition:
        return self.manager.partition(TP)

    @property
    def log(self) -> Log:
        log = self.partition.log
        assert log is not None
        return log

    def produce(self, *values: bytes, **options: Any) -> None:
        records = [(self.clock.time_ms(), None, value, ()) for value in values]
        self.partition.append_as_leader(memoryview(encode_batch(records, **options)), 1, AppendOrigin.CLIENT)

    def alter(self, path: str) -> None:
        self.manager.alter_log_dir(TP, path)


def values(log: Log, start: int | None = None) -> list[tuple[int, bytes | None]]:
    """Offset and value of everything in the log."""
    found = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=1 << 20, max_offset=log.log_end_offset, min_one_message=True)
        data = memoryview(b"".join(piece.read(0, piece.size) for piece in read.slices))
        read.release()
        for position, header in iter_headers(data):
            for index, record in enumerate(decode_batch(data, position, header)):
                found.append((header.base_offset + index, record.value))
            offset = header.next_offset
    return found


def expected(count: int) -> list[tuple[int, bytes]]:
    return [(index, b"%d" % index) for index in range(count)]


def filled(count: int = 200, **options: Any) -> FutureReplicasWorld:
    world = FutureReplicasWorld(**options)
    for index in range(count):
        world.produce(b"%d" % index)
    return world


def names(disk: VirtualDisk, path: str) -> list[str]:
    return [name for name in disk.listdir(path) if name.startswith("orders")]


def test_a_replica_moves_while_it_is_written() -> None:
    world = filled()
    assert len(world.log.segments) > 3
    world.alter("/b")
    (future,) = names(world.disk, "/b")
    assert future.startswith("orders-0.")
    assert future.endswith("-future")
    count = 200

    def produce() -> None:
        nonlocal count
        if count < 400:
            world.produce(b"%d" % count)
            count += 1

    world.settle(between=produce)
    assert world.log.directory == "/b/orders-0"
    assert values(world.log) == expected(count)
    assert world.log.topic_id == TOPIC
    assert world.log.high_watermark == count
    (left,) = names(world.disk, "/a")
    assert left.endswith("-delete")
    world.produce(b"%d" % count)
    assert values(world.log) == expected(count + 1)
    world.sync()
    assert names(world.disk, "/b") == ["orders-0"]
    assert not world.disk.exists("/b/orders-0/moved-from")
    assert TP not in read_offset_checkpoint(world.disk, "/a/recovery-point-offset-checkpoint")


def test_nothing_moves_before_the_controller_agrees() -> None:
    world = filled()
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    assert [directory for directory, _ in world.assigned] == [B]
    for _ in range(50):
        world.step()
    assert world.moving
    assert world.log.directory == "/a/orders-0"
    world.produce(b"200")
    world.settle()
    assert world.log.directory == "/b/orders-0"
    assert values(world.log) == expected(201)


def test_the_copy_follows_truncations_and_the_log_start() -> None:
    world = filled()
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    world.log.truncate_to(150)
    for index in range(150, 220):
        world.produce(b"other %d" % index)
    world.log.maybe_increment_log_start_offset(42)
    world.settle()
    assert world.log.directory == "/b/orders-0"
    assert world.log.log_start_offset == 42
    assert values(world.log, 42)[-80:] == [(n, b"%d" % n) for n in range(140, 150)] + [(n, b"other %d" % n) for n in range(150, 220)]


def test_a_truncation_while_a_piece_is_read_does_not_bring_it_back() -> None:
    world = filled()
    world.alter("/b")
    world.clock.advance_ms(20)
    assert len(world.jobs) == 1  # the first piece is on its way
    world.log.truncate_to(3)
    for index in range(3, 10):
        world.produce(b"new %d" % index)
    world.settle()
    assert values(world.log) == expected(3) + [(n, b"new %d" % n) for n in range(3, 10)]


def test_producers_and_epochs_come_along() -> None:
    world = FutureReplicasWorld()
    world.produce(b"0", producer_id=9, producer_epoch=0, base_sequence=0)
    world.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1, isr=[1]))
    world.produce(b"1", producer_id=9, producer_epoch=0, base_sequence=1)
    world.produce(b"2", producer_id=9, producer_epoch=0, base_sequence=2)
    before = world.log.leader_epochs.entries
    world.alter("/b")
    world.settle()
    assert world.log.directory == "/b/orders-0"
    assert world.log.leader_epochs.entries == before
    world.produce(b"1", producer_id=9, producer_epoch=0, base_sequence=1)  # a repetition
    assert world.log.log_end_offset == 3
    with pytest.raises(KafkaError) as caught:
        world.produce(b"7", producer_id=9, producer_epoch=0, base_sequence=7)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_another_target_starts_over_and_the_same_directory_cancels() -> None:
    world = filled()
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    world.assigned.pop(0)[1].complete(None)
    world.clock.run_due()
    world.alter("/a")
    assert not world.moving
    assert [directory for directory, _ in world.assigned] == [A]  # the controller hears that it stays
    assert all(name.endswith("-delete") for name in names(world.disk, "/b"))
    while world.jobs:
        world.run_job()
    world.produce(b"200")
    assert world.log.directory == "/a/orders-0"
    world.assigned.clear()
    world.alter("/b")
    world.settle()
    assert values(world.log) == expected(201)
    world.alter("/a")
    world.settle()
    assert world.log.directory == "/a/orders-0"
    assert values(world.log) == expected(201)


def test_moving_to_where_it_is_does_nothing() -> None:
    world = filled(3)
    world.alter("/a")
    assert not world.moving


def test_a_topic_that_is_deleted_takes_its_move_along() -> None:
    world = filled()
    world.alter("/b")
    world.clock.advance_ms(20)
    world.apply(RemoveTopicRecord(topic_id=TOPIC))
    assert not world.moving
    while world.jobs:
        world.run_job()
    assert all(name.endswith("-delete") for path in ("/a", "/b") for name in names(world.disk, path))
    assert not world.assigned


@pytest.mark.parametrize(
    ("path", "code"), [("/a", ErrorCode.KAFKA_STORAGE_ERROR), ("/c", ErrorCode.LOG_DIR_NOT_FOUND), ("/b", ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_what_cannot_be_moved_says_so(path: str, code: ErrorCode) -> None:
    world = filled(3)
    world.logs.directory_failed("/b" if path == "/b" else "/a", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError) as caught:
        world.alter(path)
    assert caught.value.code is code


def test_a_cordoned_directory_takes_nothing() -> None:
    world = filled(3)
    world.logs.cordon(["/b"])
    with pytest.raises(KafkaError) as caught:
        world.alter("/b")
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_partition_not_here_is_made_where_it_was_wished() -> None:
    world = filled(3)
    with pytest.raises(KafkaError) as caught:
        world.manager.alter_log_dir(TopicPartition("later", 0), "/a")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.logs.create_log(TopicPartition("later", 0), TOPIC, world.topic_config())
    assert world.disk.is_dir("/a/later-0")  # where there are more


@pytest.mark.parametrize("operation", ["write", "fsync", "rename", "create", "fsync_dir"])
@pytest.mark.parametrize("victim", ["/a", "/b"])
def test_a_failing_directory_ends_the_move(victim: str, operation: str) -> None:
    """Whatever fails first: the replica is whole in the directory that works, or offline with the one that does not."""
    world = filled()
    world.alter("/b")
    for _ in range(3):
        world.step()
    world.disk.fail(victim, operation)

    def produce() -> None:
        if world.partition.log is not None:
            with suppress(KafkaError):
                world.produce(b"%d" % world.log.log_end_offset)

    for _ in range(60):
        produce()
        if world.assigned:
            world.assigned.pop(0)[1].complete(None)
        world.step()
        world.sync()
    assert not world.moving
    log = world.partition.log
    if victim == "/b" and log is not None and not world.logs.directories[1].online:
        assert log.directory == "/a/orders-0"
    if log is not None:
        count = log.log_end_offset
        assert values(log) == expected(count)
        assert count >= 200
    else:
        assert victim == "/a" or not world.logs.directories[1].online


class Cut:
    """Ends the life at one of the disk's steps."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def __call__(self, operation: str, path: str) -> None:
        if operation == "read":
            return
        self.count += 1
        if self.count > self.at:
            raise PowerCut


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("flush", [False, True])
def test_a_crash_at_any_step_of_a_move_loses_nothing(power: bool, flush: bool) -> None:
    """Killed, or without power, at every change of the disk: the replica is there once, with what was flushed (or written)."""
    steps = 0
    reached_end = False
    while not reached_end:
        world = filled(30)
        world.logs.finish_checkpoints(write_checkpoints(world.logs.names.begin()))
        world.log.flush()
        checkpoint_recovery_points(world.logs)
        world.disk.fault = Cut(steps)
        durable, written = 30, 30
        try:
            world.alter("/b")
            for _ in range(400):
                if not world.moving:
                    break
                if world.assigned:
                    world.accept()
                world.step()
                if written < 60:
                    world.produce(b"%d" % written)
                    written += 1
                if flush and not world.manager.flusher._held:
                    world.log.flush()
                    durable = written
            world.sync()
            reached_end = True
        except PowerCut:
            pass
        world.disk.fault = None
        disk = world.disk.crash(random.Random(steps)) if power else world.disk.kill()
        directory = world.metadata.image.topics.partition_by_id(TOPIC, 0).directory(1)  # type: ignore[union-attr]
        after = FutureReplicasWorld(disk, directory=directory)
        least = durable if power else written
        assert least <= after.log.log_end_offset <= written + 1, (steps, after.log)
        assert values(after.log) == expected(after.log.log_end_offset)
        after.settle()
        after.sync()
        assert values(after.log) == expected(after.log.log_end_offset)
        assert after.log.log_end_offset >= least
        assert [name for path in ("/a", "/b") for name in names(after.disk, path) if not name.endswith("-delete")] == ["orders-0"]
        steps += 1
    assert steps > 40


def test_moves_share_a_throttle_and_a_number_of_copiers() -> None:
    world = filled()
    world.manager.dynamic_config.update({}, {"replica.alter.log.dirs.io.max.bytes.per.second": "1000"})
    size = world.log.size
    begin = world.clock.monotonic()
    world.alter("/b")
    world.settle()
    assert size / 1000 * 0.5 < world.clock.monotonic() - begin < size / 1000 * 2 + 1


def test_a_flush_that_waits_for_the_exchange_goes_on_with_the_new_log() -> None:
    world = filled(20, settings={"log.flush.interval.messages": "1"})
    world.config_overrides["flush.messages"] = "1"
    world.log.update_config(world.topic_config())
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    world.accept()
    done: list[Deferred[None]] = []

    def flush() -> None:
        done.append(world.manager.flusher.flush(world.partition))

    world.settle(between=flush)
    while world.jobs:
        world.run_job()
    assert world.log.directory == "/b/orders-0"
    assert done
    assert all(each.done and each.error is None for each in done)
    assert world.log.recovery_point == world.log.log_end_offset == world.log.high_watermark


@pytest.mark.parametrize("end", ["cancel", "exchange"])
def test_a_move_ends_well_that_is_older_than_the_cleaner(end: str) -> None:
    """After a restart moves go on with the metadata, and the cleaner comes later: it was never told to pause."""
    world = filled()
    world.alter("/b")
    world.logs.cleaner = CleanerManager(world.disk, world.logs)
    if end == "cancel":
        world.alter("/a")
        assert names(world.disk, "/a") == ["orders-0"]
    else:
        world.settle()
        assert world.log.directory == "/b/orders-0"
    assert not world.moving
    assert values(world.log) == expected(200)
    assert world.logs.cleaner.may_delete(world.log)


def test_the_controller_is_asked_when_the_copy_is_durable() -> None:
    world = filled()
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    future = world.logs.get_log(TP, future=True)
    assert future is not None
    assert future.recovery_point == future.log_end_offset == 200


def test_what_was_made_durable_meanwhile_is_so_after_the_move() -> None:
    world = filled()
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    world.accept()
    move = world.manager.future_replicas.moves[TP]
    world.settle(until=lambda: move.held and bool(world.jobs))
    world.produce(b"200")
    world.log.flush()  # as flush.ms does

    def check() -> None:
        assert world.log.recovery_point >= 201

    world.settle(between=check)
    assert world.log.directory == "/b/orders-0"


def test_epochs_without_records_come_along() -> None:
    world = FutureReplicasWorld()
    world.produce(b"0")
    world.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1))
    before = world.log.leader_epochs.entries
    assert len(before) == 2
    world.alter("/b")
    world.settle()
    assert world.log.directory == "/b/orders-0"
    assert world.log.leader_epochs.entries == before


def test_producers_come_along_whose_batches_are_gone() -> None:
    world = FutureReplicasWorld()
    world.produce(b"0", producer_id=9, producer_epoch=0, base_sequence=0)
    for index in range(1, 100):
        world.produce(b"%d" % index)
    world.log.maybe_increment_log_start_offset(90)
    world.alter("/b")
    world.settle()
    assert world.log.directory == "/b/orders-0"
    assert world.log.log_start_offset == 90
    with pytest.raises(KafkaError) as caught:
        world.produce(b"7", producer_id=9, producer_epoch=0, base_sequence=7)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_cleaner_goes_on_after_a_move() -> None:
    world = filled()
    world.logs.cleaner = CleanerManager(world.disk, world.logs)
    world.alter("/b")
    world.step()
    assert not world.logs.cleaner.may_delete(world.log)
    world.settle()
    assert world.logs.cleaner.may_delete(world.log)


def several(partitions: int) -> tuple[FutureReplicasWorld, list[TopicPartition]]:
    """Partitions that one thread copies, each in one piece."""
    world = filled(10, settings={"num.replica.alter.log.dirs.threads": "1"})
    found = [TP]
    for number in range(1, partitions):
        world.apply(
            PartitionRecord(
                partition_id=number, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0, directories=[A]
            )
        )
        found.append(TopicPartition("orders", number))
        for index in range(10):
            records = encode_batch([(world.clock.time_ms(), None, b"%d" % index, ())])
            world.manager.partition(found[-1]).append_as_leader(memoryview(records), 1, AppendOrigin.CLIENT)
    for each in found:
        world.manager.alter_log_dir(each, "/b")
    world.clock.advance_ms(0)
    assert len(world.jobs) == 1
    return world, found


def finish(world: FutureReplicasWorld, moving: list[TopicPartition]) -> None:
    moves = world.manager.future_replicas.moves
    for _ in range(1000):
        if not moves:
            break
        if world.assigned:
            world.assigned.pop()[1].complete(None)
        world.step()
    assert not moves
    for each in moving:
        log = world.manager.partition(each).log
        assert log is not None
        assert log.parent_directory == "/b"


def test_one_thread_copies_one_replica_at_a_time() -> None:
    finish(*several(2))


def test_a_move_that_ends_before_its_turn_leaves_it_to_the_next() -> None:
    world, (first, second, third) = several(3)
    world.manager.future_replicas.cancel(second)
    finish(world, [first, third])


def test_a_throttled_copy_does_not_hold_up_flushes() -> None:
    world = filled()
    world.manager.dynamic_config.update({}, {"replica.alter.log.dirs.io.max.bytes.per.second": "200"})
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    world.manager.flusher.flush(world.partition)
    world.accept()
    move = world.manager.future_replicas.moves[TP]
    world.clock.advance_ms(20)
    assert move.state is MoveState.HOLDING
    world.produce(b"200")  # has to be copied before the logs can change places
    flush = world.manager.flusher.flush(world.partition)
    begin = world.clock.monotonic()
    world.settle(until=lambda: flush.done)
    assert world.clock.monotonic() - begin < 3
    world.settle()
    assert world.log.directory == "/b/orders-0"


def test_another_directory_that_fails_changes_nothing() -> None:
    world = filled()
    world.logs.directory_failed("/b", OSError(5, "gone"))
    world.produce(b"200")
    assert values(world.log) == expected(201)


@pytest.mark.parametrize("named", [B, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED])
def test_a_replica_in_a_failed_directory_is_not_made_anew_in_another(named: UUID) -> None:
    """The metadata may name the directory that the replica was about to move to, or none (below metadata.version 3.7-IV2, or not yet)."""
    world = filled()
    world.logs.directory_failed("/a", OSError(5, "gone"))
    assert world.partition.role is Role.OFFLINE
    for _ in range(2):
        world.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1, directories=[named]))
        assert world.partition.role is Role.OFFLINE
        assert not world.disk.exists("/b/orders-0")
    assert {directory for directory, _ in world.assigned} == {DIRECTORY_LOST}, "another replica is to lead"


def test_a_replica_that_was_given_back_is_made_in_a_directory_that_works() -> None:
    world = filled()
    world.logs.directory_failed("/a", OSError(5, "gone"))
    world.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2, isr=[2], replicas=[2], directories=[UUID(int=77)]))
    given = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, replicas=[2, 1], directories=[UUID(int=77), DIRECTORY_UNASSIGNED], leader=2
    )
    world.apply(given)
    assert world.partition.role is Role.FOLLOWER
    assert world.log.directory == "/b/orders-0"


def test_the_controller_hears_where_a_replica_was_made() -> None:
    world = FutureReplicasWorld(directory=UUID(int=0))
    assert [PATHS[directory] for directory, _ in world.assigned] == [world.log.parent_directory]


def test_who_waits_hears_of_the_other_log() -> None:
    world = filled()
    told: list[str] = []
    world.manager.delayed.listen(TP, lambda: told.append(world.log.directory))
    world.alter("/b")
    world.settle(until=lambda: bool(world.assigned), accept=False)
    directory, done = world.assigned.pop()
    told.clear()
    done.complete(None)
    world.settle()
    assert directory == B
    assert "/b/orders-0" in told


def test_high_watermarks_are_written_by_one_thread_at_a_time() -> None:
    world = filled()
    first = world.manager.checkpoint_high_watermarks()
    world.produce(b"200")
    assert first is not None
    assert world.manager.checkpoint_high_watermarks() is None
    world.run_job()
    assert first.done
    assert world.manager.checkpoint_high_watermarks() is not None


def test_deleted_records_are_told_when_the_log_start_is_durable() -> None:
    world = filled()
    answer = world.manager.deleter.delete_records({TP: 5}, 1000)
    assert world.log.log_start_offset == 5
    assert not answer.done
    world.run_job()
    assert answer.result()[TP].low_watermark == 5
    assert read_offset_checkpoint(world.disk, "/a/log-start-offset-checkpoint") == {TP: 5}
