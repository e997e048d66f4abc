"""Batches that come with their offsets: many in one call make the very log that they make one by one."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.append import UnexpectedAppendOffsetError
from odradek.storage.log import Log
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import DIRECTORY, NOW_MS, batch, marker, open_log, topic_config

CONFIGS = (
    topic_config(segment_bytes=1500, index_interval_bytes=100),
    topic_config(segment_bytes=100_000, index_interval_bytes=50, segment_index_bytes=48),
    topic_config(segment_bytes=100_000, index_interval_bytes=200, segment_ms=40),
    topic_config(index_interval_bytes=300),
)


def history(rng: random.Random, count: int) -> list[bytes]:
    """What a leader sent: batches of several producers and epochs, transactions, gaps as compaction leaves them."""
    sent: list[bytes] = []
    offset, epoch, now = 0, 1, NOW_MS
    sequences: dict[tuple[int, int], int] = {}
    epochs = dict.fromkeys((5, 6, 8, 9), 0)
    unfinished: set[int] = set()
    for _ in range(count):
        if rng.random() < 0.1:
            epoch += rng.randint(1, 2)
        if rng.random() < 0.1:
            offset += rng.randint(1, 3)
        now += rng.choice((-30, 0, 1, 1, 5, 20))
        pid = rng.choice((-1, -1, 5, 6, 8, 9))
        if unfinished and rng.random() < 0.2:
            done = rng.choice(sorted(unfinished))
            unfinished.discard(done)
            data = bytearray(marker(done, epochs[done], commit=rng.random() < 0.5, timestamp=now))
            records = 1
        else:
            records = rng.randint(1, 4)
            options = {}
            if pid >= 0:
                if pid not in unfinished and rng.random() < 0.2:
                    epochs[pid] += 1
                key = (pid, epochs[pid])
                options = {"producer_id": pid, "producer_epoch": epochs[pid], "sequence": sequences.get(key, 0), "transactional": pid >= 8}
                sequences[key] = sequences.get(key, 0) + records
                if pid >= 8:
                    unfinished.add(pid)
            data = bytearray(batch(records, size=rng.choice((5, 40, 150)), timestamp=now, **options))  # type: ignore[arg-type]
        data[0:8] = offset.to_bytes(8, "big")
        data[12:16] = epoch.to_bytes(4, "big")
        sent.append(bytes(data))
        offset += records
    return sent


def everything(log: Log, disk: VirtualDisk) -> dict[str, object]:
    """All that a log keeps, in memory and in its files once it is closed."""
    state = log.producer_state
    kept: dict[str, object] = {
        "end": log.log_end_offset,
        "bases": list(log.bases),
        "epochs": log.leader_epochs.entries,
        "unstable": state.first_unstable_offset,
        "aborted": log.aborted_transactions(0, log.log_end_offset),
        "producers": {
            pid: (each.epoch, each.coordinator_epoch, each.txn_first_offset, each.last_timestamp, list(each.batches))
            for pid, each in state.producers.items()
        },
        "open": list(state._ongoing.items()),  # pyright: ignore[reportPrivateUsage]
        "map_end": state.map_end_offset,
        "largest": (log.active.max_timestamp, log.active.max_timestamp_offset),
    }
    log.close()
    kept |= {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY) if name.endswith((".log", "index"))}
    return kept


@settings(max_examples=60)
@given(st.integers(min_value=0, max_value=1 << 32))
@example(3)
def test_many_batches_in_one_call_make_the_log_that_they_make_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    config = rng.choice(CONFIGS)
    sent = history(rng, rng.choice((3, 40, 120)))
    found = []
    for together in (False, True):
        disk, clock = VirtualDisk(), ManualClock()
        log = open_log(disk, clock, config)
        left = list(sent)
        while left:
            size = rng.randint(1, 30) if together else 1
            data = b"".join(left[:size])
            del left[:size]
            rest = b"".join(left)[: rng.randint(0, 60)] if together else b""
            log.append_as_follower(memoryview(data + rest[: len(left[0]) - 1 if left else 0]), 1 << 20)
        found.append(everything(log, disk))
    assert found[0] == found[1]


def test_a_run_is_written_at_once() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    writes: list[str] = []
    disk.fault = lambda operation, path: writes.append(path) if operation == "write" and path.endswith(".log") else None
    log.append_as_follower(memoryview(b"".join(bytes(batch(1, base_offset=offset, epoch=0)) for offset in range(50))), 0)
    assert len(writes) == 1
    assert log.log_end_offset == 50


def damaged(data: memoryview, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def given_records(*parts: bytes | memoryview) -> memoryview:
    return memoryview(b"".join(bytes(part) for part in parts))


def test_nothing_is_appended_when_one_batch_is_damaged() -> None:
    good, wrong = batch(2, base_offset=0, epoch=1), damaged(batch(2, base_offset=2, epoch=1), 70)
    for position in range(3):
        log = open_log(VirtualDisk(), ManualClock())
        parts = [bytes(batch(1, base_offset=10 + index, epoch=1)) for index in range(2)]
        parts.insert(position, wrong if position == 0 else damaged(batch(1, base_offset=11 + position, epoch=1), 65))
        with pytest.raises(KafkaError) as caught:
            log.append_as_follower(given_records(*([] if position == 0 else [good]), *parts), 1)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == 0


@pytest.mark.parametrize("at", [8, 16])
def test_a_length_or_a_magic_that_cannot_be_is_damage(at: int) -> None:
    log = open_log(VirtualDisk(), ManualClock())
    wrong = bytearray(batch(1, base_offset=1, epoch=0))
    wrong[at : at + 1] = b"\xff"
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(given_records(batch(1, base_offset=0, epoch=0), wrong), 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_batches_of_a_later_epoch_and_what_follows_are_left_out_even_damaged() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    later = damaged(batch(1, base_offset=1, epoch=5), 70)
    info = log.append_as_follower(given_records(batch(1, base_offset=0, epoch=4), later, batch(1, base_offset=2, epoch=4)), 4)
    assert (info.last_offset, info.record_count, log.log_end_offset, log.latest_epoch) == (0, 1, 1, 4)


def test_offsets_that_go_back_are_refused_wherever_they_stand() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        log.append_as_follower(given_records(batch(3, base_offset=0, epoch=0), batch(2, base_offset=2, epoch=0)), 0)
    assert (caught.value.first_offset, caught.value.last_offset) == (2, 3)
    assert log.log_end_offset == 0


def test_a_raft_leaders_batches_leave_no_gap() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_raft(given_records(batch(2, base_offset=0, epoch=0), batch(1, base_offset=3, epoch=0)), 0)
    assert log.append_raft(given_records(batch(2, base_offset=0, epoch=0), batch(1, base_offset=2, epoch=0)), 0).last_offset == 2


def test_what_is_cut_off_at_the_end_is_left_out() -> None:
    whole = bytes(batch(1, base_offset=0, epoch=0))
    next_one = bytes(batch(1, base_offset=1, epoch=0))
    for length in range(len(next_one)):
        log = open_log(VirtualDisk(), ManualClock())
        assert log.append_as_follower(given_records(whole, next_one[:length]), 0).last_offset == 0


def test_more_batches_than_one_scan_holds() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    large = bytes(batch(300, base_offset=0, epoch=0))
    small = b"".join(bytes(batch(1, base_offset=300 + index, epoch=0, size=1)) for index in range(400))
    assert log.append_as_follower(given_records(large, small), 0).last_offset == 699
