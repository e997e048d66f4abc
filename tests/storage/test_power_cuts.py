"""Power cuts where the campaign of crash states found a loss: each at every change of the disk on the way, several disks after each."""

from __future__ import annotations

import random

import pytest

from odradek.storage.append import AppendOrigin
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from odradek.storage.txn_index import AbortedTransaction
from odradek.testing.simulation.disk import ALL, NONE, SUBSET, VirtualDisk
from tests.clock import ManualClock
from tests.storage.compaction_support import Cleanery, compact_config, latest
from tests.storage.power_support import MODES, cut_during
from tests.storage.support import (
    DIRECTORY,
    PARTITION,
    TOPIC_ID,
    append_transactions,
    batch,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    load_all,
    marker,
    no_broker,
    open_log,
    read_all,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1200, index_interval_bytes=100, file_delete_delay_ms=0)


# -- transaction indexes -------------------------------------------------------------------------------------------------------------------


def aborting(disk: VirtualDisk) -> tuple[Log, list[AbortedTransaction], list[str]]:
    """A log that was shut down, its aborted transactions, and the transaction indexes of its older segments."""
    log = open_log(disk, ManualClock(), CONFIG)
    append_transactions(log, 30, committed=lambda index: index % 3 == 2)
    expected = log.aborted_transactions(0, 1000)
    log.close(durable=True)
    indexes = sorted(name for name in disk.listdir(DIRECTORY) if name.endswith(".txnindex"))[:-1]
    assert len(indexes) > 1
    return log, expected, indexes


@pytest.mark.parametrize("damage", ["torn", "missing"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_transaction_index_that_is_made_again_is_never_a_part_of_itself(clean: bool, damage: str) -> None:
    disk = VirtualDisk()
    log, expected, indexes = aborting(disk)
    for name in indexes:
        if damage == "missing":
            disk.remove(f"{DIRECTORY}/{name}")
        else:
            file = disk.open(f"{DIRECTORY}/{name}")
            file.truncate(file.size() - 3)
            file.fsync()
    disk.fsync_dir(DIRECTORY)
    recovery_point = log.checkpointed_recovery_point

    def load() -> None:
        again = open_log(disk, ManualClock(), CONFIG, clean=clean, recovery_point=recovery_point)
        assert again.aborted_transactions(0, 1000) == expected

    for survivor in cut_during(disk, load):
        found = open_log(survivor, ManualClock(), CONFIG, recovery_point=recovery_point)
        assert found.aborted_transactions(0, 1000) == expected


def test_indexes_made_again_at_a_clean_start_are_durable_after_the_next_shutdown() -> None:
    disk = VirtualDisk()
    _, expected, indexes = aborting(disk)
    for name in [*indexes, *[name.replace(".txnindex", ".index") for name in indexes]]:
        disk.remove(f"{DIRECTORY}/{name}")
    disk.fsync_dir(DIRECTORY)
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    made = {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY) if name.endswith("index")}
    again.close(durable=True)
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    for name, content in made.items():
        assert survivor.read_bytes(f"{DIRECTORY}/{name}") == content, name
    assert open_log(survivor, ManualClock(), CONFIG, clean=True).aborted_transactions(0, 1000) == expected


# -- shutdown, truncation, deletion --------------------------------------------------------------------------------------------------------


def test_what_recovery_wrote_is_durable_after_a_clean_shutdown() -> None:
    """Snapshots and indexes that recovery made again, and their names: a clean start reads none of it from the batches."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    for index in range(30):
        log.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=2 * index), 0)
        if index == 10:
            log.flush()
    disk = disk.kill()
    open_log(disk, ManualClock(), CONFIG, recovery_point=log.checkpointed_recovery_point).close(durable=True)
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    assert survivor.listdir(DIRECTORY) == disk.listdir(DIRECTORY)
    for name in survivor.listdir(DIRECTORY):
        assert survivor.read_bytes(f"{DIRECTORY}/{name}") == disk.read_bytes(f"{DIRECTORY}/{name}"), name
    assert open_log(survivor, ManualClock(), CONFIG, clean=True).producer_state.producers[5].last_sequence == 59


def test_a_truncation_across_segments_leaves_no_hole() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    for index in range(60):
        log.append_as_leader(batch(2, tag=str(index)), 0)
    log.flush()
    recovery_point = log.checkpointed_recovery_point
    target = log.bases[1] + 2
    assert len(log.segments) > 4

    for survivor in cut_during(disk, lambda: log.truncate_to(target)):
        found = open_log(survivor, ManualClock(), CONFIG, recovery_point=recovery_point)
        assert [record.offset for record in read_all(found)] == list(range(found.log_end_offset))
        assert found.log_end_offset >= target


@pytest.mark.parametrize("seed", range(20))
def test_what_recovery_cut_does_not_come_back_behind_what_is_written_in_its_place(seed: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    for tag in "abc":
        log.append_as_leader(batch(1, tag=tag), 0)
    log.flush()
    size = log.active.size // 3
    damaged = disk.open(log.active.log_path)
    damaged.pwritev([b"\xff"], size + 70)
    damaged.fsync()
    restarted = disk.kill()
    again = open_log(restarted, ManualClock())
    assert again.log_end_offset == 1
    again.append_as_leader(batch(1, tag="B"), 0)
    found = open_log(restarted.crash(random.Random(seed), names=ALL, data=SUBSET), ManualClock())
    assert b"c" not in [record.value[:1] for record in read_all(found) if record.value]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_truncated_does_not_come_back_behind_what_is_written_in_its_place(seed: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    for tag in "abc":
        log.append_as_leader(batch(1, tag=tag), 0)
    log.flush()
    log.truncate_to(1)
    log.append_as_leader(batch(1, tag="B"), 0)
    found = open_log(disk.crash(random.Random(seed), names=ALL, data=SUBSET), ManualClock())
    assert b"c" not in [record.value[:1] for record in read_all(found) if record.value]


@pytest.mark.parametrize("seed", range(20))
def test_a_file_where_a_segment_begins_leaves_nothing_behind_what_is_written_into_it(seed: int) -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    log.append_as_leader(batch(1, tag="a"), 0)
    log.flush()
    old = b"".join(bytes(batch(1, tag=tag, base_offset=offset, epoch=0)) for offset, tag in enumerate("bc", start=1))
    left = disk.open(f"{DIRECTORY}/{1:020d}.log", create=True)
    left.pwritev([old], 0)
    left.fsync()
    disk.fsync_dir(DIRECTORY)
    log.roll()
    log.append_as_leader(batch(1, tag="B"), 0)
    found = open_log(disk.crash(random.Random(seed), names=ALL, data=SUBSET), ManualClock())
    assert b"c" not in [record.value[:1] for record in read_all(found) if record.value]


@pytest.mark.parametrize("seed", range(20))
def test_a_truncation_to_the_beginning_of_a_segment_is_durable_as_well(seed: int) -> None:
    """There is a producer snapshot at that offset already: nothing but the bytes is new."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    log.append_as_leader(batch(1, tag="a"), 0)
    log.roll()
    for tag in "bc":
        log.append_as_leader(batch(1, tag=tag), 0)
    log.flush()
    log.truncate_to(1)
    log.append_as_leader(batch(1, tag="B"), 0)
    found = open_log(disk.crash(random.Random(seed), names=ALL, data=SUBSET), ManualClock())
    assert b"c" not in [record.value[:1] for record in read_all(found) if record.value]


@pytest.mark.parametrize("names", [NONE, ALL])
def test_segments_that_recovery_dropped_do_not_come_back_behind_what_is_written_since(names: str) -> None:
    """What is written next fills the hole exactly, and reaches the disk by itself."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    while len(log.segments) < 3:
        log.append_as_leader(batch(1, tag="old"), 0)
    log.flush()
    lost = list(log.segments[0].scan())[-1]
    damaged = disk.open(log.segments[0].log_path)
    damaged.truncate(lost.position)
    damaged.fsync()
    restarted = disk.kill()
    again = open_log(restarted, ManualClock(), CONFIG)
    assert again.log_end_offset == lost.base_offset
    assert [name for name in restarted.listdir(DIRECTORY) if name.endswith(".log")] == [f"{0:020d}.log"]
    again.append_as_leader(batch(1, tag="new"), 0)
    found = open_log(restarted.crash(random.Random(1), names=names, data=ALL), ManualClock(), CONFIG)
    assert found.log_end_offset == lost.base_offset + 1


def test_segments_that_a_killed_process_left_become_durable_with_what_is_flushed_to_them() -> None:
    """Their names were in the page cache only; recovery has read them there."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(2), 0)
    log.flush()
    disk.fsync_dir("/")
    disk.fsync_dir("/data")
    recovery_point = log.checkpointed_recovery_point
    assert recovery_point > 0, "else all names are owed anyway"
    while len(log.segments) < 3:
        log.append_as_leader(batch(1), 0)
    restarted = disk.kill()
    again = open_log(restarted, ManualClock(), CONFIG, recovery_point=recovery_point)
    again.append_as_leader(batch(1), 0)
    again.flush()
    survivor = restarted.crash(random.Random(1), names=NONE, data=NONE)
    found = open_log(survivor, ManualClock(), CONFIG, recovery_point=again.checkpointed_recovery_point)
    assert [record.offset for record in read_all(found)] == list(range(again.log_end_offset))


def started(disk: VirtualDisk) -> LogManager:
    manager = LogManager(disk, ManualClock(), ["/data"], no_broker(), random=random.Random(3))
    load_all(manager, lambda _: CONFIG)
    return manager


@pytest.mark.parametrize("seed", range(20))
def test_deleted_records_do_not_come_back(seed: int) -> None:
    """Neither with the segments whose removal was not durable, nor because the log start is at the base of the first segment."""
    disk = VirtualDisk()
    manager = started(disk)
    log = manager.create_log(PARTITION, TOPIC_ID, CONFIG)
    for index in range(60):
        log.append_as_leader(batch(2, tag=str(index)), 0)
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    checkpoint_recovery_points(manager)
    start = log.bases[3]
    log.maybe_increment_log_start_offset(start)
    assert log.delete_old_segments() == 3
    checkpoint_log_start_offsets(manager)
    rng = random.Random(seed)
    names, data = MODES[seed % len(MODES)]
    survivor = disk.crash(rng, names=names, data=data)
    found = started(survivor).create_log(PARTITION, TOPIC_ID, CONFIG)
    assert found.log_start_offset == start


def clean_and_delete(found: Cleanery) -> None:
    assert found.clean_all()
    deletion = found.logs.due_deletions()
    assert deletion is not None
    assert not deletion.run()


def test_what_replaces_older_records_is_durable_before_they_go() -> None:
    """The log is flushed up to the old value only; the cleaning drops that in favour of a new one."""
    found = Cleanery(config=compact_config(file_delete_delay_ms=0))
    found.put(("k", "old"), ("first", "." * 350))
    found.roll()
    found.log.flush()
    checkpoint_recovery_points(found.logs)
    found.put(("k", "new"), ("second", "." * 350))
    found.roll()

    # Both segments stay, one after the other, because together they are too large for one.
    for survivor in cut_during(found.disk, lambda: clean_and_delete(found)):
        left = Cleanery(survivor, config=found.config)
        assert latest(left.records())[b"k"][1] in (b"old", b"new")


def test_a_producer_is_known_by_a_batch_that_stays() -> None:
    """Cleaning drops the batches of a producer who has a later one behind what is cleaned: that one must be durable before."""
    found = Cleanery(config=compact_config(file_delete_delay_ms=0))
    found.put(("k", "one"), producer=(7, 0, 0))
    found.roll()
    found.log.flush()
    found.put(("k", "two"), producer=(7, 0, 1))
    found.put(("k", "other"), ("other", "." * 350))
    found.log.flush()
    checkpoint_recovery_points(found.logs)
    # The snapshot that is written with this roll is not durable; the one before knows less.
    found.roll()
    found.put(("k", "three"), producer=(7, 0, 2))

    for survivor in cut_during(found.disk, lambda: clean_and_delete(found)):
        left = Cleanery(survivor, config=found.config)
        assert left.log.producer_state.producers[7].last_sequence in (1, 2)


def test_aborted_transactions_outlive_a_roll_after_recovery() -> None:
    """Everything was flushed, so that the stored recovery point is the log's end: after a recovery and a roll there, it lies behind the
    segment whose indexes were just made again.
    """
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(9, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    log.flush()
    end, expected = log.log_end_offset, log.aborted_transactions(0, 1000)
    assert expected
    restarted = disk.kill()
    again = open_log(restarted, ManualClock(), CONFIG, recovery_point=end)

    def roll() -> None:
        again.roll()
        again.append_as_leader(batch(1), 0)

    for survivor in cut_during(restarted, roll):
        found = open_log(survivor, ManualClock(), CONFIG, recovery_point=end)
        assert found.aborted_transactions(0, 1000) == expected
