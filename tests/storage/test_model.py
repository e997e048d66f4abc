"""The log against a list: any order of appends, rolls, truncations, deletions, flushes, restarts, kills and power cuts."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import (
    PARTITION,
    TOPIC_ID,
    batch,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    cleanup,
    load_all,
    no_broker,
    read_all,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1500, index_interval_bytes=100, retention_bytes=4000, file_delete_delay_ms=0)


class LogWorld:
    """The log and, beside it, what it ought to hold."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.disk = VirtualDisk()
        self.values: dict[int, bytes] = {}
        self.history: dict[int, set[bytes]] = {}
        """Everything that ever stood at an offset: an unflushed truncation may be undone by a power cut."""
        self.flushed = 0
        self.counter = 0
        self.sequence = 0
        self.open()

    def open(self) -> None:
        self.manager = LogManager(self.disk, self.clock, ["/data"], no_broker(), random=self.rng)
        load_all(self.manager, _config)
        self.log: Log = self.manager.create_log(PARTITION, TOPIC_ID, CONFIG)

    def append(self, count: int, size: int) -> None:
        self.counter += 1
        tag = str(self.counter)
        info = self.log.append_as_leader(batch(count, tag=tag, size=size), self.counter // 10)
        for index in range(count):
            offset = info.first_offset + index
            value = f"{tag}:{index}".encode().ljust(size, b".")
            self.values[offset] = value
            self.history.setdefault(offset, set()).add(value)

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.log_end_offset

    def truncate(self, share: float) -> None:
        target = int(self.log.log_start_offset + share * (self.log.log_end_offset - self.log.log_start_offset))
        self.log.truncate_to(target)
        self.values = {offset: value for offset, value in self.values.items() if offset < self.log.log_end_offset}
        self.flushed = min(self.flushed, self.log.log_end_offset)

    def raise_start(self, share: float) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        target = int(self.log.log_start_offset + share * (self.log.log_end_offset - self.log.log_start_offset))
        self.log.maybe_increment_log_start_offset(target)
        checkpoint_log_start_offsets(self.manager)

    def retain(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        cleanup(self.manager)
        deletion = self.manager.due_deletions()
        if deletion is not None:
            assert deletion.run() == []

    def restart(self) -> None:
        end = self.log.log_end_offset
        self.manager.shutdown()
        self.open()
        assert self.log.log_end_offset == self.log.recovery_point == end
        self.flushed = end

    def kill(self) -> None:
        end, start = self.log.log_end_offset, self.log.log_start_offset
        self.disk = self.disk.kill()
        self.open()
        assert self.log.log_end_offset == end
        assert self.log.log_start_offset <= start

    def cut_power(self) -> None:
        start = self.log.log_start_offset
        self.disk = self.disk.crash(self.rng)
        self.open()
        found = {record.offset: record.value for record in read_all(self.log)}
        assert self.log.log_end_offset >= self.flushed
        for offset in range(max(start, self.log.log_start_offset), self.log.log_end_offset):
            if offset < self.flushed:
                assert found[offset] == self.values[offset]
            else:
                assert found[offset] in self.history[offset]
        self.values = {offset: value for offset, value in found.items() if value is not None}
        self.flushed = min(self.flushed, self.log.log_end_offset)

    def check(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert log.bases == sorted(segment.base_offset for segment in log.segments)
        expected = [(offset, self.values[offset]) for offset in range(log.log_start_offset, log.log_end_offset)]
        assert [(record.offset, record.value) for record in read_all(log)] == expected
        if expected:
            offset = self.rng.choice(expected)[0]
            found = log.read(offset, max_bytes=1, max_offset=log.log_end_offset, min_one_message=True)
            assert found.first_offset <= offset
            found.release()


def _config(_: TopicPartition) -> TopicConfig:
    return CONFIG


shares = st.floats(0, 1)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 6), st.integers(8, 200)),
    st.tuples(st.just("append"), st.integers(1, 6), st.integers(8, 200)),
    st.tuples(st.just("append"), st.integers(1, 6), st.integers(8, 200)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("truncate"), shares),
    st.tuples(st.just("raise_start"), shares),
    st.tuples(st.just("retain")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("cut_power")),
)


@example([("restart",), ("append", 1, 8), ("restart",), ("cut_power",)], 0)
@example([("append", 1, 8), ("append", 1, 8), ("kill",), ("flush",), ("checkpoint",), ("cut_power",)], 0)
@given(st.lists(steps, min_size=1, max_size=40), st.integers(0, 1 << 30))
@settings(max_examples=150, derandomize=True, deadline=None, report_multiple_bugs=False)
def test_the_log_does_what_a_list_does(script: list[tuple[object, ...]], seed: int) -> None:
    world = LogWorld(seed)
    for name, *arguments in script:
        if name == "checkpoint":
            checkpoint_recovery_points(world.manager)
        elif name == "roll":
            world.log.roll()
        else:
            getattr(world, str(name))(*arguments)
        world.check()
