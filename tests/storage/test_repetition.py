"""After a restart the log still tells repetitions from new batches, and under flush.messages counts what it recovered."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.recovery import recent_batches
from odradek.testing.simulation.disk import NONE, VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import batch, open_log, topic_config


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 250])
def test_the_last_five_batches_are_known_after_a_restart(clean: bool, segment_bytes: int) -> None:
    config = topic_config(segment_bytes=segment_bytes, index_interval_bytes=100)
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), config)
    for index in range(8):
        log.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=2 * index), 0)
        log.append_as_leader(batch(1, producer_id=6, producer_epoch=0, sequence=index), 0)
    if clean:
        log.close(durable=True)
    again = open_log(disk.kill(), ManualClock(), config, clean=clean)
    for index in range(3, 8):
        info = again.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=2 * index), 0)
        assert (info.duplicate, info.first_offset) == (True, 3 * index)
    with pytest.raises(KafkaError) as error:
        again.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=4), 0)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not again.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=16), 0).duplicate
    assert again.log_end_offset == 26


def test_batches_of_another_epoch_or_with_a_gap_are_no_repetition() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    log.append_as_leader(batch(2, producer_id=5, producer_epoch=0, sequence=0), 0)
    log.append_as_leader(batch(2, producer_id=5, producer_epoch=1, sequence=0), 0)
    log.append_as_leader(batch(2, producer_id=5, producer_epoch=1, sequence=2), 0)
    again = open_log(disk.kill(), ManualClock())
    with pytest.raises(KafkaError) as error:
        again.append_as_leader(batch(2, producer_id=5, producer_epoch=1, sequence=1), 0)
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [entry.last_sequence for entry in again.producer_state.producers[5].batches] == [1, 3]


def test_under_flush_messages_what_was_recovered_is_flushed() -> None:
    config = topic_config(flush_messages=1)
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), config)
    log.append_as_leader(batch(3), 0)
    assert log.recovery_point == 0
    again = open_log(disk.kill(), ManualClock(), config)
    assert again.recovery_point == again.log_end_offset == 3
    assert open_log(disk.kill(), ManualClock()).recovery_point == 0


@pytest.mark.parametrize("flush_messages", [1, 5])
def test_under_flush_messages_what_a_failed_fsync_left_in_memory_is_written_again(flush_messages: int) -> None:
    """As on Linux, where the next fsync succeeds without having written it."""
    config = topic_config(flush_messages=flush_messages, segment_bytes=250)
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), config)
    for _ in range(9):
        log.append_as_leader(batch(1), 0)
    assert len(log.segments) > 2
    failure = disk.fail("", "fsync")
    for segment in log.segments:
        with pytest.raises(OSError, match="Input/output"):
            segment.file.fsync()
    failure.lift()
    disk = disk.kill()
    again = open_log(disk, ManualClock(), config)
    # With 5 this one is what makes a flush due, which tells that all is durable.
    again.append_as_leader(batch(1), 0)
    flush = again.begin_flush()
    assert flush is not None
    flush.run(disk)
    again.finish_flush(flush)
    assert again.recovery_point == 10
    assert open_log(disk.crash(random.Random(1), names=NONE, data=NONE), ManualClock(), config).log_end_offset == 10


def test_the_search_for_repetitions_goes_back_step_by_step_and_ends_early() -> None:
    """At the first batch out of order after a restart; it must not hold the loop up however long the log is."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), topic_config(index_interval_bytes=4096, segment_bytes=400_000))
    for index in range(5):
        log.append_as_leader(batch(1, producer_id=6, producer_epoch=0, sequence=index), 0)
    for index in range(17_000):
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=index), 0)
    for index in range(5):
        log.append_as_leader(batch(1, producer_id=5, producer_epoch=0, sequence=index), 0)
    log.append_as_leader(batch(1, producer_id=6, producer_epoch=0, sequence=5), 0)
    assert len(log.segments) > 2
    read = 0

    def count(operation: str, path: str) -> None:
        nonlocal read
        read += operation == "read" and path.endswith(".log")

    disk.fault = count
    assert [found.last_sequence for found in recent_batches(log.segments, 5, 0)] == [0, 1, 2, 3, 4]
    assert read == 1
    # Those of producer 6 lie too far back, all but the last.
    assert [found.last_sequence for found in recent_batches(log.segments, 6, 0)] == [5]
    assert [found.last_sequence for found in recent_batches(log.segments, 7, 0)] == [16995, 16996, 16997, 16998, 16999]
    assert [found.last_sequence for found in recent_batches(log.segments[:1], 6, 0)] == [0, 1, 2, 3, 4]


def test_without_flush_messages_nothing_is_written_at_a_start() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    log.append_as_leader(batch(1), 0)
    disk = disk.kill()
    written: list[str] = []
    disk.fault = lambda operation, path: written.append(path) if operation == "write" and path.endswith(".log") else None
    open_log(disk, ManualClock())
    assert written == []
