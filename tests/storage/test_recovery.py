"""What is left of a log after damage, one kind of damage after the other."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import StorageError
from odradek.storage.append import AppendOrigin
from odradek.storage.log import Log
from odradek.testing.simulation.disk import NONE, VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import DIRECTORY, NOW_MS, append_transactions, batch, marker, open_log, read_all, topic_config

CONFIG = topic_config(segment_bytes=1200, index_interval_bytes=100)


def filled(disk: VirtualDisk, count: int = 30) -> Log:
    log = open_log(disk, ManualClock(), CONFIG)
    for index in range(count):
        log.append_as_leader(batch(2, tag=str(index), producer_id=5, producer_epoch=0, sequence=2 * index), index // 10)
    return log


def change(disk: VirtualDisk, name: str, *, cut: int | None = None, flip: int | None = None) -> None:
    file = disk.open(f"{DIRECTORY}/{name}")
    if cut is not None:
        file.truncate(cut)
    if flip is not None:
        file.pwritev([bytes([file.pread(1, flip)[0] ^ 0x55])], flip)
    file.close()


def name(log: Log, index: int, suffix: str) -> str:
    return f"{log.bases[index]:020d}{suffix}"


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=100, derandomize=True, deadline=None)
def test_a_torn_active_segment_keeps_its_whole_batches(position: int, zeros: bool) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    ends = [(batch_.position + batch_.size, batch_.last_offset + 1) for batch_ in log.active.scan()]
    size = log.active.size
    position %= size
    last = name(log, -1, ".log")
    change(disk, last, cut=position)
    if zeros:
        change(disk, last, cut=size)
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    expected = max([next_offset for end, next_offset in ends if end <= position], default=log.bases[-1])
    assert again.log_end_offset == expected
    assert offsets(again) == list(range(expected))
    assert again.producer_state.producers[5].last_sequence == expected - 1
    assert again.append_as_leader(batch(1), 9).first_offset == expected


@given(st.integers(0, 1 << 30))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_damage_in_the_middle_ends_the_log_there(seed: int) -> None:
    rng = random.Random(seed)
    disk = VirtualDisk()
    log = filled(disk)
    segment = rng.randrange(len(log.segments))
    position = rng.randrange(log.segments[segment].size)
    damaged = next(found for found in log.segments[segment].scan() if found.position <= position < found.position + found.size)
    if position - damaged.position in {*range(8), *range(12, 16)}:
        return  # Base offset and leader epoch are not covered by the checksum.
    change(disk, name(log, segment, ".log"), flip=position)
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert again.log_end_offset == damaged.base_offset
    assert offsets(again) == list(range(damaged.base_offset))
    assert len(again.segments) == segment + 1
    assert again.leader_epochs.latest_epoch <= log.leader_epochs.latest_epoch


def test_what_lies_below_the_recovery_point_is_not_read_again() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.flush()
    reads: list[str] = []
    survivor = disk.kill()
    survivor.fault = lambda operation, path: reads.append(path) if operation == "read" and path.endswith(".log") else None
    open_log(survivor, ManualClock(), CONFIG, recovery_point=log.checkpointed_recovery_point)
    assert {path.rpartition("/")[2] for path in reads} <= {name(log, -2, ".log"), name(log, -1, ".log")}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "garbage"])
def test_damaged_indexes_are_rebuilt_even_below_the_recovery_point(suffix: str, damage: str) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    path = f"{DIRECTORY}/{name(log, 0, suffix)}"
    original = disk.read_bytes(path)
    assert original
    if damage == "missing":
        disk.remove(path)
    elif damage == "torn":
        change(disk, name(log, 0, suffix), cut=len(original) - 3)
    else:
        file = disk.open(path)
        file.pwritev([b"\xff" * len(original)], 0)
        file.close()
    again = open_log(disk.kill(), ManualClock(), CONFIG, clean=True)
    assert offsets(again) == list(range(60))
    assert again.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 1, 0)
    for offset in range(60):
        found = again.read(offset, max_bytes=1, max_offset=60, min_one_message=True)
        assert found.first_offset == offset // 2 * 2
        found.release()


def test_orphan_indexes_and_left_overs_go() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    for stray in ("00000000000000009999.index", "00000000000000000000.log.deleted", "00000000000000000000.log.cleaned"):
        disk.open(f"{DIRECTORY}/{stray}", create=True).close()
    open_log(disk, ManualClock(), CONFIG, clean=True)
    assert not [found for found in disk.listdir(DIRECTORY) if found.endswith((".deleted", ".cleaned")) or "9999" in found]


def test_an_interrupted_swap_is_finished() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    # The cleaner had merged the first two segments into one that begins at 0.
    joined = b"".join(disk.read_bytes(f"{DIRECTORY}/{name(log, index, '.log')}") for index in (0, 1))
    file = disk.open(f"{DIRECTORY}/00000000000000000000.log.swap", create=True)
    file.pwritev([joined], 0)
    file.close()
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    assert again.bases == [0, *log.bases[2:]]
    assert offsets(again) == list(range(60))
    assert not [found for found in disk.listdir(DIRECTORY) if found.endswith(".swap")]


def test_a_swap_that_was_not_complete_is_dropped() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    for stray in ("00000000000000000000.log.cleaned", f"{log.bases[1]:020d}.log.swap"):
        disk.open(f"{DIRECTORY}/{stray}", create=True).close()
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    assert again.bases == log.bases
    assert offsets(again) == list(range(60))


def test_a_damaged_producer_snapshot_is_replaced_by_an_older_one_or_a_scan() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    for snapshot in log.producer_state.snapshots.offsets[1:]:
        change(disk, f"{snapshot:020d}.snapshot", flip=10)
    again = open_log(disk.kill(), ManualClock(), CONFIG, clean=True)
    assert again.producer_state.producers[5].last_sequence == 59


def test_stray_snapshots_go_except_the_newest() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    good = log.producer_state.snapshots.offsets
    data = disk.read_bytes(f"{DIRECTORY}/{good[0]:020d}.snapshot")
    disk.write_atomic(f"{DIRECTORY}/{7:020d}.snapshot", data)
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    assert again.producer_state.snapshots.offsets == good


def test_epochs_beyond_the_log_end_are_dropped_and_missing_ones_rebuilt() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.write_atomic(path, b"0\n2\n0 0\n8 500\n")
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0), (1, 20), (2, 40)]
    disk.remove(path)
    assert open_log(disk.kill(), ManualClock(), CONFIG).leader_epochs.entries == log.leader_epochs.entries


def test_an_epoch_checkpoint_of_a_later_release_is_an_error() -> None:
    disk = VirtualDisk()
    filled(disk)
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", b"7\n0\n")
    with pytest.raises(StorageError):
        open_log(disk, ManualClock(), CONFIG, clean=True)
    with pytest.raises(StorageError):
        open_log(disk, ManualClock(), CONFIG, recovery_point=2)


@pytest.mark.parametrize("content", [b"0\n1\nrubbish\n", b"0\n3\n0 0\n", b"\0\0\0"])
def test_a_malformed_epoch_checkpoint_of_a_log_that_was_never_flushed_is_made_again(content: bytes) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", content)
    assert open_log(disk.kill(), ManualClock(), CONFIG).leader_epochs.entries == log.leader_epochs.entries


def test_an_empty_epoch_checkpoint_is_none() -> None:
    disk = VirtualDisk()
    filled(disk)
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", b"")
    assert open_log(disk, ManualClock(), CONFIG).leader_epochs.latest_epoch == 2


def test_a_log_that_ends_below_its_start_begins_anew_there() -> None:
    disk = VirtualDisk()
    filled(disk)
    log = open_log(disk.kill(), ManualClock(), CONFIG, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (500, 500, 1)


def test_a_hole_between_unflushed_segments_ends_the_log() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    first_end = [found.position for found in log.segments[1].scan()][-1]
    change(disk, name(log, 1, ".log"), cut=first_end)
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert again.log_end_offset == log.bases[2] - 2
    assert len(again.segments) == 2


def test_a_hole_that_the_cleaner_left_ends_nothing_whatever_the_policy_is_by_now() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    first_end = [found.position for found in log.segments[1].scan()][-1]
    end = log.log_end_offset
    change(disk, name(log, 1, ".log"), cut=first_end)
    again = open_log(disk.kill(), ManualClock(), CONFIG, compacted=True)
    assert again.log_end_offset == end
    assert len(again.segments) == len(log.segments)


def test_aborted_transactions_survive_recovery() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    append_transactions(log, 20, committed=lambda index: index % 3 != 0)
    expected = log.aborted_transactions(0, 1000)
    assert len(expected) == 7
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert again.aborted_transactions(0, 1000) == expected
    log.close(durable=True)
    assert open_log(disk.kill(), ManualClock(), CONFIG, clean=True).aborted_transactions(0, 1000) == expected


def test_a_clean_shutdown_does_not_hide_a_destroyed_end() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    last = list(log.active.scan())[-1]
    log.close(durable=True)
    file = disk.open(f"{DIRECTORY}/{name(log, -1, '.log')}")
    file.pwritev([bytes(last.size)], last.position)
    file.close()
    again = open_log(disk.kill(), ManualClock(), CONFIG, clean=True)
    assert again.log_end_offset == last.base_offset
    assert offsets(again) == list(range(last.base_offset))


def test_a_new_epoch_is_written_with_its_first_flushed_records_and_not_before() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.flush()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert disk.read_bytes(path) == b"0\n3\n0 0\n1 20\n2 40\n"
    log.assign_epoch_start(7, log.log_end_offset)
    assert disk.read_bytes(path) == b"0\n3\n0 0\n1 20\n2 40\n"
    log.append_as_leader(batch(1), 7)
    assert [tuple(entry) for entry in open_log(disk.kill(), ManualClock(), CONFIG, recovery_point=60).leader_epochs.entries][-1] == (7, 60)
    log.flush()
    for seed in range(20):
        lost = disk.crash(random.Random(seed))
        again = open_log(lost, ManualClock(), CONFIG, recovery_point=log.checkpointed_recovery_point)
        assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0), (1, 20), (2, 40), (7, 60)]


@pytest.mark.parametrize("damage", [None, b"", b"0\n3\n0 0\n", b"\0\0\0\0"])
def test_an_epoch_checkpoint_that_is_lost_below_the_recovery_point_is_made_of_the_batches(damage: bytes | None) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    expected = log.leader_epochs.entries
    log.close(durable=True)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    if damage is None:
        disk.remove(path)
    else:
        disk.write_atomic(path, damage)
    assert open_log(disk.kill(), ManualClock(), CONFIG, clean=True).leader_epochs.entries == expected
    assert open_log(disk.kill(), ManualClock(), CONFIG, recovery_point=50).leader_epochs.entries == expected
    assert open_log(disk, ManualClock(), CONFIG, clean=True).leader_epochs.entries == expected
    assert disk.read_bytes(path) == b"0\n3\n0 0\n1 20\n2 40\n"


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_epoch_checkpoint_is_made_of_all_batches_although_an_index_had_to_be_made_first(clean: bool) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    expected = log.leader_epochs.entries
    log.close(durable=True)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    disk.remove(f"{DIRECTORY}/{name(log, -2, '.index')}")
    assert open_log(disk, ManualClock(), CONFIG, clean=clean, recovery_point=log.log_end_offset).leader_epochs.entries == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_entries_that_lie_are_found_out_when_they_are_used(suffix: str) -> None:
    """Not garbage, but entries that could be: those of another log, or moved by a few bytes."""
    for seed in range(40):
        rng = random.Random(seed)
        disk = VirtualDisk()
        log = filled(disk)
        log.close(durable=True)
        path = f"{DIRECTORY}/{name(log, rng.randrange(len(log.bases)), suffix)}"
        data = bytearray(disk.read_bytes(path))
        if not data:
            continue
        entry = 8 if suffix == ".index" else 12
        slot = rng.randrange(len(data) // entry) * entry + entry - 4
        value = int.from_bytes(data[slot : slot + 4], "big", signed=True) + rng.choice((-61, -1, 1, 200, 1 << 30, -(1 << 30)))
        data[slot : slot + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")
        disk.write_atomic(path, bytes(data))
        again = open_log(disk.kill(), ManualClock(), CONFIG, clean=True)
        assert again.log_end_offset == 60
        for offset in range(60):
            found = again.read(offset, max_bytes=1, max_offset=60, min_one_message=True)
            assert found.first_offset == offset // 2 * 2
            found.release()
        assert again.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 1, 0)
        assert offsets(again) == list(range(60))


def test_a_batch_whose_base_offset_jumps_ends_the_log_before_it() -> None:
    """Base offsets are not covered by the checksum; what follows shows which batch is wrong."""
    disk = VirtualDisk()
    log = filled(disk)
    last = name(log, -1, ".log")
    batches = list(log.active.scan())
    change(disk, last, flip=batches[1].position + 5)
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert again.log_end_offset == batches[1].base_offset
    assert offsets(again) == list(range(batches[1].base_offset))


def test_an_index_rebuilt_below_the_recovery_point_costs_no_producer_state() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    disk.remove(f"{DIRECTORY}/{name(log, 0, '.index')}")
    again = open_log(disk.kill(), ManualClock(), CONFIG, clean=True)
    assert again.producer_state.snapshots.offsets == log.producer_state.snapshots.offsets
    assert again.producer_state.producers[5].last_sequence == 59


@pytest.mark.parametrize("snapshots", ["whole", "lost", "damaged"])
def test_a_transaction_index_that_is_missing_below_the_recovery_point_is_made_again(snapshots: str) -> None:
    """A snapshot that is gone, too, does not say that there was nothing in it."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    append_transactions(log, 30, committed=lambda index: index % 3 != 0)
    expected = log.aborted_transactions(0, 1000)
    log.close(durable=True)
    indexes = [found for found in disk.listdir(DIRECTORY) if found.endswith(".txnindex")]
    assert len(indexes) > 2
    snapshots_but_the_last = sorted(found for found in disk.listdir(DIRECTORY) if found.endswith(".snapshot"))[:-1]
    for lost in [*indexes, *(snapshots_but_the_last if snapshots == "lost" else [])]:
        disk.remove(f"{DIRECTORY}/{lost}")
    for damaged in snapshots_but_the_last if snapshots == "damaged" else []:
        change(disk, damaged, cut=10)
    for options in ({"clean": True}, {"recovery_point": 70}):
        again = open_log(disk.kill(), ManualClock(), CONFIG, **options)
        assert again.aborted_transactions(0, 1000) == expected
        assert again.producer_state.producers[9].last_sequence == 59


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_damaged_transaction_index_costs_no_flushed_records_although_one_of_them_is_damaged_too(snapshots: bool) -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    append_transactions(log, 30)
    expected = log.aborted_transactions(0, 1000)
    log.close(durable=True)
    for found in disk.listdir(DIRECTORY):
        if found.endswith(".txnindex"):
            change(disk, found, cut=20)
        elif found.endswith(".snapshot") and not snapshots:
            disk.remove(f"{DIRECTORY}/{found}")
    before = {found: disk.read_bytes(f"{DIRECTORY}/{found}") for found in disk.listdir(DIRECTORY) if found.endswith(".log")}
    damaged = name(log, 0, ".log")
    change(disk, damaged, flip=70)
    survivor = disk.kill()
    again = open_log(survivor, ManualClock(), CONFIG, clean=True)
    assert again.aborted_transactions(0, 1000) == expected
    assert again.log_end_offset == log.log_end_offset
    assert {found: len(survivor.read_bytes(f"{DIRECTORY}/{found}")) for found in before} == {found: len(before[found]) for found in before}


def test_segments_without_transactions_are_not_searched_for_them() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    reads: list[str] = []
    survivor = disk.kill()
    survivor.fault = lambda operation, path: reads.append(path) if operation == "read" and path.endswith(".log") else None
    open_log(survivor, ManualClock(), CONFIG, clean=True)
    assert {path.rpartition("/")[2] for path in reads} <= {name(log, -1, ".log")}
    assert not [found for found in survivor.listdir(DIRECTORY) if found.endswith(".txnindex")]


def test_a_snapshot_of_before_the_first_segment_says_nothing_of_a_transaction_that_ended_since() -> None:
    """Retention removed a segment that was not flushed, and the power cut tore the snapshot where the next one begins."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(2, producer_id=8, producer_epoch=0, sequence=0, transactional=True), 0)
    log.producer_state.take_snapshot()
    log.append_as_leader(marker(8, 0, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(1), 0)
    log.roll()
    log.append_as_leader(batch(2, producer_id=8, producer_epoch=0, sequence=2, transactional=True), 0)
    log.append_as_leader(marker(8, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(1, producer_id=8, producer_epoch=0, sequence=4, transactional=True), 0)
    survivor = disk.kill()
    change(survivor, name(log, 1, ".snapshot"), cut=10)
    for suffix in (".log", ".index", ".timeindex"):
        survivor.remove(f"{DIRECTORY}/{name(log, 0, suffix)}")
    again = open_log(survivor, ManualClock(), CONFIG, recovery_point=2)
    assert (again.log_start_offset, again.log_end_offset) == (4, 8)
    assert again.aborted_transactions(4, 8) == [(8, 4, 6, 7)]
    assert again.producer_state.producers[8].txn_first_offset == 7


def test_epochs_of_a_compacted_log_that_has_lost_all_its_segments_hide_none_of_what_comes_next() -> None:
    """A power cut while a follower dropped everything in order to start over."""
    config = topic_config(cleanup_policy="compact")
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), config)
    for epoch in range(3):
        log.append_as_leader(batch(5), epoch)
    log.flush()
    for found in disk.listdir(DIRECTORY):
        if found.startswith("0"):
            disk.remove(f"{DIRECTORY}/{found}")
    survivor = disk.kill()
    again = open_log(survivor, ManualClock(), config, recovery_point=15)
    assert (again.log_end_offset, again.leader_epochs.entries) == (0, [])
    again.append_as_follower(batch(2, epoch=1), 1)
    third = open_log(survivor.kill(), ManualClock(), config)
    assert third.log_end_offset == 2
    assert [tuple(entry) for entry in third.leader_epochs.entries] == [(1, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_swapped_in_without_its_index_loses_nothing_although_a_batch_in_it_is_damaged(clean: bool) -> None:
    disk = VirtualDisk()
    log = filled(disk)
    append_transactions(log, 3, leader_epoch=3)
    log.roll()
    log.close(durable=True)
    expected = log.aborted_transactions(0, 1000)
    first, second = log.segments[-3:-1]
    file = disk.open(f"{DIRECTORY}/{name(log, -3, '.log')}.swap", create=True)
    joined = bytearray(b"".join(disk.read_bytes(segment.log_path) for segment in (first, second)))
    joined[200] ^= 0x10
    file.pwritev([joined], 0)
    file.close()
    survivor = disk.kill()
    again = open_log(survivor, ManualClock(), CONFIG, clean=clean, recovery_point=log.log_end_offset)
    assert again.bases == [*log.bases[:-2], log.bases[-1]]
    assert survivor.read_bytes(again.segments[-2].log_path) == joined
    assert again.log_end_offset == log.log_end_offset
    assert again.aborted_transactions(0, 1000) == expected
    assert again.segments[-2].offset_index.entries > 4
    assert {path.rpartition(".")[2] for path in again.durability.owed[0]} >= {"index", "timeindex"}


def test_an_epoch_begins_where_the_checkpoint_says_although_its_first_batch_comes_behind_a_gap() -> None:
    """Nothing covers a base offset: the last batch of a log may have any that is high enough. As in Kafka it stays."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    for epoch in (0, 0, 1):
        log.append_as_leader(batch(2), epoch)
    log.flush()
    last = [found.position for found in log.active.scan()][-1]
    file = disk.open(log.active.log_path)
    file.pwritev([(1000).to_bytes(8, "big")], last)
    file.close()
    again = open_log(disk.kill(), ManualClock(), CONFIG)
    assert again.log_end_offset == 1002
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0), (1, 4)]
    # An entry that the batches contradict counts for nothing.
    disk.write_atomic(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 3\n")
    third = open_log(disk.kill(), ManualClock(), CONFIG)
    assert [tuple(entry) for entry in third.leader_epochs.entries] == [(0, 0), (1, 1000)]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_epochs_come_back_with_records_that_were_deleted_up_to_the_end(policy: str) -> None:
    """Epochs below the log start leave their file with the next flush, the log start reaches its own later: after a crash in between the
    deleted records are there again, as in Kafka.
    """
    disk = VirtualDisk()
    config = topic_config(segment_bytes=1200, cleanup_policy=policy)
    log = open_log(disk, ManualClock(), config)
    for epoch in (0, 2):
        log.append_as_leader(batch(2), epoch)
    log.flush()
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(4)
    log.roll()
    log.flush()
    assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n2 4\n"
    again = open_log(disk.kill(), ManualClock(), config, recovery_point=4)
    assert offsets(again) == [0, 1, 2, 3]
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0), (2, 2)]


def test_recovery_begins_with_the_segment_that_holds_the_recovery_point() -> None:
    """The point is the last offset of a segment: that record is not flushed, and is torn."""
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    last = list(log.segments[0].scan())[-1]
    change(disk, name(log, 0, ".log"), cut=last.position + 10)
    again = open_log(disk.kill(), ManualClock(), CONFIG, recovery_point=log.bases[1] - 1)
    assert again.log_end_offset == last.base_offset
    assert offsets(again) == list(range(last.base_offset))


def test_an_index_entry_that_leads_behind_its_offset_hides_nothing() -> None:
    """It points where a batch begins, of later offsets."""
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    path = f"{DIRECTORY}/{name(log, 0, '.index')}"
    data = bytearray(disk.read_bytes(path))
    batches = {each.last_offset: each for each in log.segments[0].scan()}
    offset = int.from_bytes(data[:4], "big")
    following = batches[offset + 2]
    data[4:8] = following.position.to_bytes(4, "big")
    disk.write_atomic(path, bytes(data))
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    found = again.read(offset, max_bytes=1, max_offset=60, min_one_message=True)
    assert found.first_offset == batches[offset].base_offset
    found.release()


def test_nothing_is_left_of_segments_behind_a_damaged_one() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    change(disk, name(log, 0, ".log"), flip=100)
    again = open_log(disk, ManualClock(), CONFIG)
    again.close(durable=True)
    gone = {f"{base:020d}" for base in log.bases[1:]}
    assert not [each for each in disk.listdir(DIRECTORY) if each.partition(".")[0] in gone]


def test_a_log_that_lost_its_end_does_not_count_it_as_flushed() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.flush()
    point = log.recovery_point
    disk = disk.kill()
    change(disk, name(log, -1, ".log"), cut=70)
    again = open_log(disk, ManualClock(), CONFIG, recovery_point=point)
    assert again.log_end_offset < point
    assert again.recovery_point == again.log_end_offset


def test_a_log_whose_process_was_killed_before_its_first_flush_owes_its_small_files() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    log.assign_topic_id(UUID(int=7 << 64))
    metadata = f"{DIRECTORY}/partition.metadata"
    # As a new log has it: written, not synced.
    disk.remove(metadata)
    file = disk.open(metadata, create=True)
    file.pwritev([b"version: 0\ntopic_id: AAAAAAAAAAcAAAAAAAAAAA"], 0)
    log.append_as_leader(batch(1), 0)
    restarted = disk.kill()
    again = open_log(restarted, ManualClock())
    assert again.topic_id == UUID(int=7 << 64)
    again.flush()
    restarted.fsync_dir("/")
    restarted.fsync_dir("/data")
    survivor = restarted.crash(random.Random(1), names=NONE, data=NONE)
    found = open_log(survivor, ManualClock(), recovery_point=again.checkpointed_recovery_point)
    assert (found.topic_id, offsets(found)) == (UUID(int=7 << 64), [0])


def test_transactions_aborted_in_a_cut_part_hide_nothing_that_is_written_in_its_place() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(9, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    assert log.aborted_transactions(0, 3)
    log.truncate_to(2)
    log.append_as_leader(marker(9, 0, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    assert log.aborted_transactions(0, 3) == []


def test_old_segments_count_as_long_as_one_file_of_the_new_one_is_not_renamed() -> None:
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    swap = disk.open(f"{DIRECTORY}/{0:020d}.log.swap", create=True)
    swap.pwritev([disk.read_bytes(log.segments[0].log_path)[:200]], 0)
    disk.open(f"{DIRECTORY}/{0:020d}.timeindex.cleaned", create=True)
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    assert again.bases == log.bases
    assert offsets(again) == list(range(60))


def test_a_finished_swap_keeps_the_snapshot_where_the_new_segment_begins() -> None:
    """It may know producers whose batches the cleaner has dropped."""
    disk = VirtualDisk()
    log = filled(disk)
    log.close(durable=True)
    first, second = log.bases[1:3]
    joined = b"".join(disk.read_bytes(f"{DIRECTORY}/{base:020d}.log") for base in (first, second))
    swap = disk.open(f"{DIRECTORY}/{first:020d}.log.swap", create=True)
    swap.pwritev([joined], 0)
    again = open_log(disk, ManualClock(), CONFIG, clean=True)
    assert again.bases == [base for base in log.bases if base != second]
    assert disk.exists(f"{DIRECTORY}/{first:020d}.snapshot")
    assert not disk.exists(f"{DIRECTORY}/{second:020d}.snapshot")


def test_an_abort_whose_marker_was_cut_off_hides_nothing_that_is_written_there_instead() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), CONFIG)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0)
    whole = log.active.size
    log.append_as_leader(marker(7, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
    survivor = disk.kill()
    change(survivor, name(log, 0, ".log"), cut=whole + 20)
    again = open_log(survivor, ManualClock(), CONFIG)
    again.append_as_leader(marker(7, 0, commit=True), 0, origin=AppendOrigin.COORDINATOR)
    again.close(durable=True)
    last = open_log(survivor.crash(random.Random(1), names=NONE, data=NONE), ManualClock(), CONFIG, clean=True)
    assert last.log_end_offset == 2
    assert last.aborted_transactions(0, 2) == []
