"""What a flush promises, whenever the power may be cut; and what never happens on the loop."""

from __future__ import annotations

import errno
import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.append import AppendOrigin
from odradek.storage.log import Log
from odradek.testing.simulation.disk import NONE, VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import DIRECTORY, PARTITION, batch, marker, open_log, read_all, topic_config

CONFIG = topic_config(segment_bytes=1200, index_interval_bytes=100)
DURABLE = {"fsync", "fsync_dir"}


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


def operations(disk: VirtualDisk) -> list[tuple[str, str]]:
    """Whatever happens on the disk from now on: (operation, name)."""
    seen: list[tuple[str, str]] = []
    disk.fault = lambda operation, path: seen.append((operation, path.rpartition("/")[2]))
    return seen


def fill(log: Log, count: int, epoch: int = 0) -> None:
    for index in range(count):
        log.append_as_leader(batch(2, tag=str(index)), epoch)


def test_appending_rolling_and_new_epochs_leave_fsyncs_to_the_flush(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    seen = operations(disk)
    log.assign_epoch_start(3, 0)
    fill(log, 40, 3)
    log.assign_epoch_start(4, log.log_end_offset)
    fill(log, 40, 4)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(20)
    log.delete_old_segments()
    assert len(log.segments) > 2
    assert not DURABLE.intersection(operation for operation, _ in seen)
    log.flush()
    assert ("fsync", "leader-epoch-checkpoint.tmp") in seen
    assert ("fsync_dir", DIRECTORY.rpartition("/")[2]) in seen


@pytest.mark.parametrize("seed", range(40))
def test_epochs_of_flushed_records_survive_a_power_cut(seed: int) -> None:
    """The checkpoint is never torn, whatever was assigned after the last flush."""
    disk = VirtualDisk()
    rng = random.Random(seed)
    log = open_log(disk, ManualClock(), CONFIG)
    epochs: dict[int, int] = {}
    flushed = 0
    for epoch in range(1, 6):
        log.assign_epoch_start(epoch, log.log_end_offset)
        for _ in range(rng.randrange(4)):
            epochs.setdefault(epoch, log.log_end_offset)
            fill(log, rng.randrange(1, 12), epoch)
        if rng.random() < 0.5:
            log.flush()
            flushed = log.log_end_offset
    again = open_log(disk.crash(rng), ManualClock(), CONFIG, recovery_point=log.checkpointed_recovery_point)
    assert again.log_end_offset >= flushed
    expected = [(epoch, start) for epoch, start in epochs.items() if start < again.log_end_offset]
    assert [tuple(entry) for entry in again.leader_epochs.entries] == expected


def test_epochs_without_records_cost_an_idle_log_nothing(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 3, 1)
    log.close(durable=True)
    log = open_log(disk, ManualClock(), CONFIG, clean=True)
    seen = operations(disk)
    log.assign_epoch_start(2, log.log_end_offset)
    assert log.begin_flush() is None
    log.close(durable=True)
    assert {operation for operation, _ in seen} <= {"read"}


def test_a_flush_from_before_a_roll_does_not_vouch_for_the_rolled_indexes(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 3)
    early = log.begin_flush()
    assert early is not None
    early.run(disk)
    log.roll()
    rolled_at = log.active.base_offset
    log.finish_flush(early)
    # The data is durable, so that acknowledgements go out; recovery still has to look at the segment.
    assert log.recovery_point == rolled_at
    assert log.checkpointed_recovery_point == rolled_at - 1
    log.flush()
    assert log.checkpointed_recovery_point == log.recovery_point == rolled_at
    log.append_as_leader(batch(2), 0)
    log.flush()
    assert log.recovery_point == rolled_at + 2
    # Of an active segment only the data is durable: it must not lie below the point as a whole.
    assert log.checkpointed_recovery_point == rolled_at + 1


def test_acknowledgements_do_not_fall_back_when_a_segment_rolls(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 3)
    log.flush()
    log.roll()
    assert log.recovery_point == log.log_end_offset


def test_a_clean_shutdown_keeps_the_transaction_index(disk: VirtualDisk) -> None:
    """Its name comes into being long after the directory was made durable."""
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0)
    log.flush()
    log.append_as_leader(marker(7, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    log.flush()
    log.close(durable=True)
    for seed in range(20):
        again = open_log(disk.crash(random.Random(seed)), ManualClock(), CONFIG, clean=True)
        assert [found.producer_id for found in again.aborted_transactions(0, 10)] == [7]


@pytest.mark.parametrize(
    ("operation", "suffix"),
    [
        *(("fsync", suffix) for suffix in (".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint.tmp")),
        ("fsync_dir", "orders-0"),
    ],
)
def test_what_cannot_be_made_durable_never_counts_as_such(disk: VirtualDisk, operation: str, suffix: str) -> None:
    failures: list[OSError] = []
    log = open_log(disk, ManualClock(), CONFIG, on_io_error=lambda _, error: failures.append(error))
    log.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=0), 1)
    log.roll()
    fill(log, 2, 2)

    def fault(kind: str, path: str) -> None:
        if kind == operation and path.endswith(suffix):
            raise OSError(errno.EIO, "the disk is gone", path)

    disk.fault = fault
    with pytest.raises(KafkaError) as caught:
        log.flush()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    assert (log.recovery_point, log.checkpointed_recovery_point) == (0, 0)


def test_a_truncated_epoch_does_not_come_back_in_a_compacted_log(disk: VirtualDisk) -> None:
    config = topic_config(segment_bytes=1200, index_interval_bytes=100, cleanup_policy="compact")
    log = open_log(disk, ManualClock(), config)
    fill(log, 5, 8)
    fill(log, 5, 9)
    log.flush()
    log.truncate_to(6)
    fill(log, 7, 8)
    again = open_log(disk.kill(), ManualClock(), config, recovery_point=log.checkpointed_recovery_point)
    assert again.log_end_offset == 20
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(8, 0)]
    assert len(read_all(again)) == 20
    assert again.topic_partition == PARTITION


def test_epochs_are_still_owed_when_the_directory_was_renamed_before_they_were_written(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 3, 5)
    flush = log.begin_flush()
    assert flush is not None
    log.rename_directory("orders-0.moved")
    flush.run(disk)
    log.finish_flush(flush)
    assert log.recovery_point == 0, "the plan was made for another name"
    log.flush()
    assert disk.read_bytes("/data/orders-0.moved/leader-epoch-checkpoint") == b"0\n1\n5 0\n"
    assert log.recovery_point == 6


def test_a_log_that_went_offline_is_not_flushed(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock())
    log.append_as_leader(batch(1), 0)
    log.close_handles()
    with pytest.raises(KafkaError, match="closed") as caught:
        log.begin_flush()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("first", ["flush", "truncation"])
def test_epochs_cut_during_a_flush_stay_cut(disk: VirtualDisk, first: str) -> None:
    """Two threads want to write the checkpoint; the flush is the older of them, whichever comes first."""
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 2, 5)
    log.flush()
    fill(log, 2, 6)
    flush = log.begin_flush()
    assert flush is not None
    if first == "flush":
        flush.run(disk)
        assert disk.read_bytes(path) == b"0\n2\n5 0\n6 4\n"
    log.truncate_to(4)
    assert disk.read_bytes(path) == b"0\n1\n5 0\n"
    if first == "truncation":
        flush.run(disk)
        assert disk.read_bytes(path) == b"0\n1\n5 0\n"
    fill(log, 2, 6)
    log.finish_flush(flush)
    # The entries are again those that the flush meant to write, and the file does not hold them.
    log.flush()
    assert disk.read_bytes(path) == b"0\n2\n5 0\n6 4\n"


def test_an_epoch_that_begins_during_a_flush_is_owed_to_the_next(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(1), 1)
    flush = log.begin_flush()
    assert flush is not None
    log.append_as_leader(batch(1), 2)
    flush.run(disk)
    log.finish_flush(flush)
    log.flush()
    assert log.recovery_point == 2
    assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n2 1\n"


def test_a_flush_that_a_rename_overtook_does_not_vouch_for_names(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    fill(log, 3)
    flush = log.begin_flush()
    assert flush is not None
    log.rename_directory("orders-0-renamed")
    flush.run(disk)
    log.finish_flush(flush)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 6
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    assert survivor.read_bytes(log.active.log_path) == disk.read_bytes(log.active.log_path)


def test_a_failed_flush_lets_go_of_the_files(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 40)
    disk.fail(log.directory, "fsync")
    with pytest.raises(KafkaError) as caught:
        log.flush()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [segment.pin.readers for segment in log.segments] == [0] * len(log.segments)


def test_what_a_renamed_log_owes_is_found_under_its_new_name(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    fill(log, 1)
    log.flush()  # Nothing but what is owed makes the directory durable from now on.
    path = f"{DIRECTORY}/partition.metadata"
    file = disk.open(path, create=True)
    file.pwritev([b"small"], 0)
    log.durability.owe(path)
    log.rename_directory("orders-0-renamed")
    fill(log, 1)
    log.flush()
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    assert survivor.read_bytes(f"{log.directory}/partition.metadata") == b"small"


def test_the_indexes_of_a_rolled_segment_are_durable_with_the_flush_after_it(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    fill(log, 20)
    log.flush()
    assert len(log.segments) > 1
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    for base in log.bases[:-1]:
        for suffix in (".index", ".timeindex"):
            path = f"{DIRECTORY}/{base:020d}{suffix}"
            assert disk.read_bytes(path)
            assert survivor.read_bytes(path) == disk.read_bytes(path)


def test_the_indexes_of_a_segment_that_was_cut_and_filled_again_are_durable_with_the_flush_after_its_roll(disk: VirtualDisk) -> None:
    log = open_log(disk, ManualClock(), CONFIG)
    fill(log, 20)
    log.flush()
    second = log.bases[1]
    log.truncate_to(second - 2)
    while len(log.segments) == 1:
        log.append_as_leader(batch(1, size=90), 1)
        log.flush()
    log.append_as_leader(batch(1), 1)
    log.flush()
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    for suffix in (".index", ".timeindex"):
        path = f"{DIRECTORY}/{0:020d}{suffix}"
        assert survivor.read_bytes(path) == disk.read_bytes(path)
