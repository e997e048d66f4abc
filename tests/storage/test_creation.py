"""The logs of new partitions are made by a job: what is seen before and after it, failing disks, what changes meanwhile."""

from __future__ import annotations

import errno
import random
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import read_offset_checkpoint, read_partition_metadata
from odradek.storage.creation import LogCreation, WantedLog
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import (
    TOPIC_ID,
    batch,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    load_all,
    no_broker,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1000, file_delete_delay_ms=60_000)
A_ID, B_ID = UUID(int=1001), UUID(int=1002)
IDS = {"/a": A_ID, "/b": B_ID}


def manager(disk: VirtualDisk, *directories: str) -> LogManager:
    directories = directories or ("/data",)
    made = LogManager(disk, ManualClock(), directories, no_broker(), random=random.Random(3), directory_ids=IDS)
    load_all(made, lambda _: CONFIG)
    return made


def partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def begin(logs: LogManager, count: int, *, first: int = 0, directory_id: UUID | None = None) -> LogCreation:
    creation = logs.begin_creation(WantedLog(partition(first + each), TOPIC_ID, CONFIG, directory_id, is_new=True) for each in range(count))
    assert creation is not None
    return creation


def create(logs: LogManager, count: int, *, first: int = 0, directory_id: UUID | None = None) -> None:
    creation = begin(logs, count, first=first, directory_id=directory_id)
    creation.run()
    logs.finish_creation(creation)


def test_create_log_finds_what_the_job_has_made() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    create(logs, 3)
    made = list(logs.logs)
    assert [log.topic_partition for log in made] == [partition(0), partition(1), partition(2)]
    assert read_partition_metadata(disk, "/data/t-2/partition.metadata") == TOPIC_ID
    disk.fault = lambda operation, path: pytest.fail(f"{operation} of {path}")
    assert [logs.create_log(partition(number), TOPIC_ID, CONFIG) for number in range(3)] == made


def test_nothing_is_seen_before_the_job_is_finished() -> None:
    logs = manager(VirtualDisk())
    creation = begin(logs, 2)
    assert list(logs.logs) == []
    creation.run()
    assert list(logs.logs) == []
    assert not logs.names
    names: list[str] = []
    logs.on_created = lambda: names.append("to do")
    logs.finish_creation(creation)
    assert len(list(logs.logs)) == 2
    assert logs.names
    assert names == ["to do"]


def test_only_what_is_missing_is_made() -> None:
    logs = manager(VirtualDisk())
    log = logs.create_log(partition(1), TOPIC_ID, CONFIG)
    create(logs, 3)
    assert logs.get_log(partition(1)) is log
    assert logs.begin_creation([WantedLog(partition(number), TOPIC_ID, CONFIG) for number in range(3)]) is None
    assert logs.begin_creation([]) is None


def test_logs_that_are_made_together_go_where_the_fewest_are() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    logs.create_log(partition(9), TOPIC_ID, CONFIG, directory_id=A_ID)
    create(logs, 5)
    assert [len(directory.logs) for directory in logs.directories] == [3, 3]


def test_logs_that_are_there_are_not_on_their_way_any_more() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    create(logs, 3, directory_id=A_ID)
    for number in range(3, 7):
        logs.create_log(partition(number), TOPIC_ID, CONFIG, directory_id=B_ID)
    assert logs.create_log(partition(7), TOPIC_ID, CONFIG).parent_directory == "/a"


def test_a_log_goes_where_it_was_wanted() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    create(logs, 3, directory_id=B_ID)
    assert [len(directory.logs) for directory in logs.directories] == [0, 3]
    logs.placement.prefer(partition(3), "/b")
    create(logs, 1, first=3)
    assert [len(directory.logs) for directory in logs.directories] == [0, 4]
    logs.delete_log(partition(3))
    assert logs.create_log(partition(3), TOPIC_ID, CONFIG).parent_directory == "/a", "that was for once"


def fail_at(disk: VirtualDisk, path: str, tried: list[str]) -> None:
    def fault(operation: str, at: str) -> None:
        if at.startswith("/a/t-"):
            tried.append(at)
        if at.startswith(path):
            raise OSError(errno.EIO, "I/O error", at)

    disk.fault = fault


def test_a_disk_that_fails_takes_its_directory_offline_and_the_others_get_their_logs() -> None:
    disk = VirtualDisk()
    logs = manager(disk, "/a", "/b")
    failures: list[str] = []
    logs.on_directory_failure = lambda path, error: failures.append(path)
    creation = begin(logs, 8)
    tried: list[str] = []
    fail_at(disk, "/a/t-2", tried)
    creation.run()
    assert failures == [], "that is for the loop to do"
    logs.finish_creation(creation)
    assert failures == ["/a"]
    assert {path.split("/")[2] for path in tried} == {"t-0", "t-2"}, "nothing is tried after a failure"
    assert [log.topic_partition.partition for log in logs.logs] == [1, 3, 5, 7]
    assert creation.made[0][1].closed
    for number in (0, 2, 4):
        with pytest.raises(KafkaError, match=r"may be in a log directory that is offline: /a") as caught:
            logs.create_log(partition(number), TOPIC_ID, CONFIG)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert logs.create_log(partition(number), TOPIC_ID, CONFIG, is_new=True).parent_directory == "/b"


def test_a_new_log_whose_directory_fails_on_the_loop_goes_to_another() -> None:
    disk = VirtualDisk()
    logs = manager(disk, "/a", "/b")
    fail_at(disk, "/a/t-0", [])
    assert logs.create_log(partition(0), TOPIC_ID, CONFIG, is_new=True).parent_directory == "/b"
    fail_at(disk, "/b/t-1", [])
    with pytest.raises(KafkaError, match="All log directories that could hold"):
        logs.create_log(partition(1), TOPIC_ID, CONFIG, is_new=True)


@pytest.mark.parametrize("operation", ["mkdir", "create", "write", "rename", "open", "fsync"])
@pytest.mark.parametrize("named", [None, A_ID, B_ID])
def test_logs_that_a_failing_directory_leaves_behind_do_not_keep_the_next_start(operation: str, named: UUID | None) -> None:
    """Whatever was made in /a before it failed, each partition is there once afterwards, with what was written to it in /b."""
    for after in range(8):
        disk = VirtualDisk()
        logs = manager(disk, "/a", "/b")
        failure = disk.fail("/a/t-", operation, errno.ENOSPC, after=after)
        wanted = [WantedLog(partition(number), TOPIC_ID, CONFIG, is_new=True) for number in range(8)]
        creation = logs.begin_creation(wanted)
        assert creation is not None
        creation.run()
        logs.finish_creation(creation)
        made = [logs.create_log(*each[:3], is_new=True) for each in wanted]
        if failure.hits:
            assert {log.parent_directory for log in made} == {"/b"}
            for log in made[::2]:
                log.append_as_leader(batch(3), 0)
            for log in made:
                log.flush()
        logs.finish_checkpoints([])
        again = LogManager(disk.kill(), ManualClock(), ("/a", "/b"), no_broker(), random=random.Random(3), directory_ids=IDS)
        load_all(again, lambda _: CONFIG, assigned=lambda topic_partition, topic_id: named)
        ends = {log.topic_partition.partition: log.log_end_offset for log in again.logs}
        assert ends == {number: log.log_end_offset for number, log in enumerate(made)}


def test_what_a_job_made_in_a_directory_that_failed_meanwhile_is_closed() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    creation = begin(logs, 4)
    creation.run()
    logs.directory_failed("/a", OSError(errno.EIO, "gone"))
    logs.finish_creation(creation)
    assert [log.topic_partition.partition for log in logs.logs] == [1, 3]
    assert [log.closed for _, log in creation.made] == [True, False, True, False]


def test_a_directory_whose_checkpoint_cannot_be_written_gets_no_logs() -> None:
    disk = VirtualDisk()
    logs = manager(disk, "/a", "/b")
    log = logs.create_log(partition(0), TOPIC_ID, CONFIG, directory_id=A_ID)
    log.append_as_leader(batch(20), 0)
    log.flush()
    checkpoint_recovery_points(logs)
    logs.on_created = lambda: None  # nothing becomes durable by itself
    logs.delete_log(partition(0))
    fail_at(disk, "/a/recovery-point-offset-checkpoint", [])
    wanted = [
        WantedLog(partition(0), UUID(int=99), CONFIG, A_ID, is_new=True),
        WantedLog(partition(1), TOPIC_ID, CONFIG, B_ID, is_new=True),
    ]
    creation = logs.begin_creation(wanted)
    assert creation is not None
    assert [directory.path for directory in logs.online_directories] == ["/b"]
    creation.run()
    logs.finish_creation(creation)
    assert [log.topic_partition for log in logs.logs] == [partition(1)]
    with pytest.raises(KafkaError, match="offline: /a"):
        logs.create_log(partition(0), UUID(int=99), CONFIG, directory_id=A_ID, is_new=True)


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_log_made_where_one_was_inherits_nothing(checkpoint: str) -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(partition(0), TOPIC_ID, CONFIG)
    log.append_as_leader(batch(20), 0)
    log.update_high_watermark(20)
    log.maybe_increment_log_start_offset(20)
    log.flush()
    checkpoint_recovery_points(logs)
    checkpoint_log_start_offsets(logs)
    logs.on_created = lambda: None  # nothing becomes durable by itself
    logs.delete_log(partition(0))
    assert partition(0) in read_offset_checkpoint(disk, f"/data/{checkpoint}")
    create(logs, 1)
    assert partition(0) not in read_offset_checkpoint(disk, f"/data/{checkpoint}")


def test_what_no_directory_can_take_is_left_to_create_log() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    logs.directory_failed("/a", OSError(errno.EIO, "gone"))
    assert logs.begin_creation([WantedLog(partition(0), TOPIC_ID, CONFIG, A_ID)]) is None
    with pytest.raises(KafkaError, match="offline: /a"):
        logs.create_log(partition(0), TOPIC_ID, CONFIG, directory_id=A_ID)


def test_what_goes_wrong_otherwise_comes_up_in_create_log_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(disk: VirtualDisk, clock: ManualClock, topic_partition: TopicPartition, *args: Any, **options: Any) -> Log:
        if topic_partition == partition(0):
            raise StorageError("a file that Kafka refuses")
        return load_log(disk, clock, topic_partition, *args, **options)

    monkeypatch.setattr("odradek.storage.creation.load_log", refuse)
    logs = manager(VirtualDisk())
    create(logs, 2)
    assert [log.topic_partition.partition for log in logs.logs] == [1]
    assert logs.online_directories
    with pytest.raises(StorageError, match="refuses"):
        logs.create_log(partition(0), TOPIC_ID, CONFIG)


@pytest.mark.parametrize("verify", [True, False])
def test_settings_that_changed_meanwhile_hold(verify: bool) -> None:
    logs = LogManager(VirtualDisk(), ManualClock(), ("/data",), no_broker(), random=random.Random(3), verify_transactions=not verify)
    load_all(logs, lambda _: CONFIG)
    creation = begin(logs, 1)
    creation.run()
    logs.update_producer_settings(60_000, verify_transactions=verify)
    logs.finish_creation(creation)
    transactional = batch(1, producer_id=5, producer_epoch=0, sequence=0, transactional=True)
    (log,) = logs.logs
    if verify:
        with pytest.raises(KafkaError) as refused:
            log.append_as_leader(transactional, 0)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    else:
        assert log.append_as_leader(transactional, 0).first_offset == 0


@pytest.mark.parametrize("seed", range(30))
def test_what_is_flushed_in_a_log_that_a_job_made_survives_a_power_cut(seed: int) -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    create(logs, 2)
    log = logs.create_log(partition(1), TOPIC_ID, CONFIG)
    log.assign_epoch_start(4, 0)
    log.append_as_leader(batch(3), 4)
    log.flush()
    again = manager(disk.crash(random.Random(seed))).get_log(partition(1))
    assert again is not None
    assert (again.topic_id, again.log_end_offset, again.latest_epoch) == (TOPIC_ID, 3, 4)
