"""Truncations that are made durable off the loop: nothing is written in their place before, and power cuts leave what they may."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from odradek.storage.truncation_flush import Hardening
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.power_support import MODES, cut_during
from tests.storage.support import (
    DIRECTORY,
    PARTITION,
    TOPIC_ID,
    batch,
    checkpoint_recovery_points,
    load_all,
    no_broker,
    open_log,
    read_all,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1200, index_interval_bytes=100, file_delete_delay_ms=0)
OTHER = TopicPartition("orders", 1)


def started(disk: VirtualDisk) -> LogManager:
    manager = LogManager(disk, ManualClock(), ["/data"], no_broker(), random=random.Random(3))
    load_all(manager, lambda _: CONFIG)
    return manager


def filled(manager: LogManager, partition: TopicPartition = PARTITION, count: int = 40) -> Log:
    log = manager.create_log(partition, TOPIC_ID, CONFIG)
    for index in range(count):
        log.append_as_leader(batch(1, tag=f"old {index}", producer_id=5, producer_epoch=0, sequence=index), 3)
    log.flush()
    checkpoint_recovery_points(manager)
    return log


def harden(manager: LogManager, *logs: Log) -> Hardening:
    hardening = manager.begin_hardening(logs)
    assert hardening is not None
    hardening.run()
    manager.finish_hardening(hardening)
    return hardening


def append_new(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_follower(batch(1, tag="new", base_offset=log.log_end_offset, epoch=4), 4)


def after_power_cuts(disk: VirtualDisk, act: Callable[[], object]) -> Iterator[Log]:
    """The log as it is found when the power fails at any moment of `act`."""
    for survivor in cut_during(disk, act):
        yield started(survivor).create_log(PARTITION, TOPIC_ID, CONFIG)


def is_beginning(found: Log, old: int, new: bytes) -> bool:
    """Old records up to some offset, then only new ones: never old behind new."""
    values = [record.value[:3] for record in read_all(found) if record.value is not None]
    kinds = [value == new for value in values]
    return kinds == sorted(kinds) and (True not in kinds or kinds.index(True) == old)


@pytest.mark.parametrize("target", [5, 17, 39])
def test_a_power_cut_never_leaves_old_records_behind_new_ones(target: int) -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)

    def cut_and_go_on() -> None:
        log.truncate_to(target, durable=False)
        harden(manager, log)
        append_new(log, 30)

    for found in after_power_cuts(disk, cut_and_go_on):
        assert found.log_end_offset >= target
        assert is_beginning(found, target, b"new")
        assert [record.offset for record in read_all(found)] == list(range(found.log_end_offset))


def lead(log: Log) -> None:
    log.append_as_leader(batch(1, tag="new"), 4)


def follow(log: Log) -> None:
    """One run of three batches, as a leader sends them."""
    end = log.log_end_offset
    log.append_as_follower(memoryview(b"".join([bytes(batch(1, tag="new", base_offset=end + index, epoch=4)) for index in range(3)])), 4)


@pytest.mark.parametrize("write", [lead, follow])
@pytest.mark.parametrize("target", [5, 39])
def test_who_writes_first_makes_the_cut_durable_first(target: int, write: Callable[[Log], None]) -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)

    def cut_and_go_on() -> None:
        log.truncate_to(target, durable=False)
        for _ in range(12):
            write(log)

    for found in after_power_cuts(disk, cut_and_go_on):
        assert is_beginning(found, target, b"new")
    assert not log.is_cut


def test_nothing_is_fsynced_by_the_cut_within_a_segment_itself() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager, count=45)
    done: list[tuple[str, str]] = []
    disk.fault = lambda operation, path: done.append((operation, path))
    log.truncate_to(41, durable=False)
    assert not [each for each in done if each[0].startswith("fsync")]
    done.clear()
    hardening = manager.begin_hardening([log])
    assert hardening is not None
    assert not [each for each in done if each[0] != "read"], "planned on the loop, and nothing more"
    hardening.run()
    synced = [path.rpartition("/")[2] for operation, path in done if operation.startswith("fsync")]
    assert synced.index(log.active.log_path.rpartition("/")[2]) < synced.index("recovery-point-offset-checkpoint.tmp")


def test_the_stored_recovery_point_goes_back_before_the_log_is_written_to() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log, other = filled(manager), filled(manager, OTHER)
    log.truncate_to(7, durable=False)
    other.truncate_to(9, durable=False)
    harden(manager, log, other)
    stored = read_offset_checkpoint(disk, "/data/recovery-point-offset-checkpoint")
    assert stored[PARTITION] <= 7
    assert stored[OTHER] <= 9
    assert not log.is_cut
    assert not other.is_cut


def test_a_checkpoint_that_is_on_its_way_is_not_taken_for_written() -> None:
    """The regular task has collected the same offsets, and has not written them yet."""
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)
    log.truncate_to(7, durable=False)
    late = manager.begin_recovery_points()
    assert late
    log.append_as_follower(batch(1, base_offset=7, epoch=4), 4)
    assert read_offset_checkpoint(disk, "/data/recovery-point-offset-checkpoint")[PARTITION] <= 7


def test_a_log_that_was_cut_once_more_stays_cut() -> None:
    manager = started(VirtualDisk())
    log = filled(manager)
    log.truncate_to(20, durable=False)
    first = manager.begin_hardening([log])
    assert first is not None
    log.truncate_to(10, durable=False)
    first.run()
    manager.finish_hardening(first)
    assert log.is_cut
    harden(manager, log)
    assert not log.is_cut


def test_a_job_that_comes_late_changes_nothing() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)
    log.truncate_to(20, durable=False)
    late = manager.begin_hardening([log])
    assert late is not None
    log.append_as_leader(batch(1, tag="new"), 4)
    assert not log.is_cut
    late.run()
    manager.finish_hardening(late)
    assert [record.offset for record in read_all(log)] == list(range(21))
    found = started(disk.crash(random.Random(1))).create_log(PARTITION, TOPIC_ID, CONFIG)
    assert found.log_end_offset <= 21


def test_nothing_has_to_be_done_for_logs_that_were_not_cut() -> None:
    manager = started(VirtualDisk())
    log = filled(manager)
    log.truncate_to(100, durable=False)
    assert manager.begin_hardening([log]) is None


def test_a_log_that_is_deleted_meanwhile_is_no_failure() -> None:
    manager = started(VirtualDisk())
    log, other = filled(manager), filled(manager, OTHER)
    log.truncate_to(3, durable=False)
    other.truncate_to(3, durable=False)
    hardening = manager.begin_hardening([log, other])
    assert hardening is not None
    manager.delete_log(PARTITION)
    hardening.run()
    manager.finish_hardening(hardening)
    assert manager.directories[0].online
    assert not other.is_cut


@pytest.mark.parametrize("prefix", [DIRECTORY, "/data/recovery-point"])
def test_a_failing_disk_takes_the_directory_offline(prefix: str) -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)
    log.truncate_to(3, durable=False)
    hardening = manager.begin_hardening([log])
    assert hardening is not None
    disk.fail(prefix, "fsync")
    hardening.run()
    manager.finish_hardening(hardening)
    assert not manager.directories[0].online


def test_a_write_that_cannot_make_the_cut_durable_is_refused() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)
    log.truncate_to(3, durable=False)
    disk.fail("/data", "fsync")
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(1), 4)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.closed


def test_a_clean_shutdown_keeps_the_cut() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    filled(manager).truncate_to(11, durable=False)
    manager.shutdown()
    for names, data in MODES:
        found = started(disk.crash(random.Random(5), names=names, data=data)).create_log(PARTITION, TOPIC_ID, CONFIG)
        assert found.log_end_offset == 11


@pytest.mark.parametrize("offset", [0, 25, 90])
def test_starting_over_is_durable_before_it_is_written_to(offset: int) -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)

    def start_over() -> None:
        log.truncate_fully_and_start_at(offset, durable=False)
        harden(manager, log)
        append_new(log, 20)

    for found in after_power_cuts(disk, start_over):
        values = [record.value[:3] for record in read_all(found) if record.value is not None]
        assert len(set(values)) <= 1, "the old log or the new one"


def test_the_producers_of_what_is_left_are_known_after_a_power_cut() -> None:
    disk = VirtualDisk()
    manager = started(disk)
    log = filled(manager)
    log.truncate_to(20, durable=False)
    harden(manager, log)
    assert log.producer_state.producers[5].last_sequence == 19
    for names, data in MODES:
        found = started(disk.crash(random.Random(2), names=names, data=data)).create_log(PARTITION, TOPIC_ID, CONFIG)
        assert found.producer_state.producers[5].last_sequence == 19


def test_a_roll_waits_for_the_cut_too() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    for index in range(5):
        log.append_as_leader(batch(1, tag=str(index)), 0)
    log.flush()
    log.truncate_to(3, durable=False)
    done: list[tuple[str, str]] = []
    disk.fault = lambda operation, path: done.append((operation, path))
    log.roll()
    operations = [operation for operation, path in done if path.startswith(DIRECTORY)]
    assert "fsync" in operations[: operations.index("create") if "create" in operations else len(operations)]
