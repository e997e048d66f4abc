"""Ten thousand partitions: logs that nobody uses hold no file open and little memory."""

from __future__ import annotations

import gc
import os
import random
import tracemalloc
from pathlib import Path

from odradek.base.ids import TopicPartition
from odradek.storage.disk import OsDisk
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.compaction_support import Cleanery
from tests.storage.support import batch, cleanup, load_all, no_broker, open_log, read_all, read_bytes, topic_config

COUNT = 60
BYTES_PER_LOG = 4_600
CONFIG = topic_config()
"""One for all logs, as brokers share it among the topics with the same settings."""


def descriptors(folder: Path) -> int:
    """Files below the folder that this process holds open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
        except FileNotFoundError:
            continue
    return found


def manager(folder: Path, clock: ManualClock) -> LogManager:
    logs = LogManager(OsDisk(), clock, [str(folder)], no_broker(), random=random.Random(1))
    load_all(logs, lambda _: CONFIG)
    return logs


def test_idle_logs_hold_no_descriptors_and_little_memory(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock)
    for number in range(COUNT):
        log = logs.create_log(TopicPartition("t", number), None, CONFIG)
        log.append_as_leader(batch(1), 0)
        log.roll()
        log.append_as_leader(batch(1), 0)
    logs.shutdown()
    manager(tmp_path, clock).shutdown()  # whatever is loaded once only
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    logs = manager(tmp_path, clock)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / COUNT < BYTES_PER_LOG
    assert descriptors(tmp_path) == 1, "the lock"
    for log in logs.logs:
        log.update_high_watermark(log.log_end_offset)
    # Retention asks each for its timestamps.
    assert cleanup(logs) == 0
    assert descriptors(tmp_path) == 1
    for log in logs.logs:
        assert len(read_bytes(log, 0)) > 0
        log.append_as_leader(batch(1), 0)
    assert descriptors(tmp_path) > COUNT
    cleanup(logs)
    assert COUNT <= descriptors(tmp_path) - 1 <= 3 * COUNT, "what was appended to lately stays open"
    cleanup(logs)
    assert descriptors(tmp_path) == 1
    assert all(len(read_all(log)) == 3 for log in logs.logs)
    logs.shutdown()


def test_what_is_being_read_stays_open() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock(), topic_config(index_interval_bytes=50))
    for index in range(10):
        log.append_as_leader(batch(2, tag=str(index)), 0)
    found = log.read(0, max_bytes=1 << 20, max_offset=20, min_one_message=True)
    log.rest()
    log.rest()
    (piece,) = found.slices
    expected = piece.read(0, piece.size)
    found.release()
    log.rest()
    # Index entries that were not written yet have not been lost.
    assert read_bytes(log, 0) == expected
    entries = log.active.offset_index.entries
    log.roll()
    assert log.segments[0].offset_index.entries == entries > 5


def test_a_cleaning_leaves_nothing_open(tmp_path: Path) -> None:
    cleanery = Cleanery(OsDisk(), directories=(str(tmp_path),))
    held: list[int] = []
    for _ in range(3):
        for number in range(4):
            cleanery.put((f"k{number}", "v"))
            cleanery.roll()
        cleanery.clock.advance_ms(1000)
        assert cleanery.clean_all() > 0
        for path in cleanery.log.take_deletions():
            OsDisk().remove(path)
        for _ in range(2):
            cleanery.log.rest()
        held.append(descriptors(tmp_path))
    assert held == [1] * 3, "the lock"
