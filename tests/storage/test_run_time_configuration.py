"""A topic's configuration changes under a running log: each key has its effect with the next append, roll or check."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import read_header
from odradek.records.compression import Compression
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import NOW_MS, batch, open_log, read_bytes, topic_config

HOUR_MS = 3_600_000


class RunTimeWorld:
    """A log with three segments of two batches each, and what it takes to change it."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.clock = ManualClock()
        self.log = open_log(self.disk, self.clock, topic_config())
        for number in range(3):
            if number:
                self.log.roll()
            self.append()
            self.append()
        self.log.update_high_watermark(self.log.log_end_offset)

    def append(self, **options: object) -> None:
        timestamp = options.pop("timestamp", self.clock.time_ms())
        self.log.append_as_leader(batch(2, timestamp=timestamp, **options), 0)  # type: ignore[arg-type]

    def configure(self, **overrides: object) -> None:
        self.log.update_config(topic_config(**overrides))

    @property
    def segments(self) -> int:
        return len(self.log.segments)

    def refusal(self, append: Callable[[], None]) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            append()
        return refused.value.code

    def last_header(self) -> tuple[Compression, bool]:
        data = read_bytes(self.log, self.log.log_end_offset - 1)
        header = read_header(memoryview(data), 0)
        return header.compression, header.is_log_append_time


@pytest.fixture
def world() -> RunTimeWorld:
    return RunTimeWorld()


def test_retention_ms(world: RunTimeWorld) -> None:
    world.clock.advance_ms(HOUR_MS)
    assert world.log.delete_old_segments() == 0
    world.configure(retention_ms=HOUR_MS // 2)
    assert world.log.delete_old_segments() == 3
    assert world.log.log_start_offset == world.log.log_end_offset == 12


def test_retention_bytes(world: RunTimeWorld) -> None:
    assert world.log.delete_old_segments() == 0
    world.configure(retention_bytes=world.log.segments[0].size * 2)
    assert world.log.delete_old_segments() == 1
    assert world.log.log_start_offset == 4


def test_cleanup_policy(world: RunTimeWorld) -> None:
    world.clock.advance_ms(HOUR_MS)
    world.configure(retention_ms=1, cleanup_policy="compact")
    assert world.log.delete_old_segments() == 0
    world.configure(retention_ms=1, cleanup_policy="compact,delete")
    assert world.log.delete_old_segments() == 3


def test_segment_bytes(world: RunTimeWorld) -> None:
    world.append()
    assert world.segments == 3
    world.configure(segment_bytes=world.log.active.size + 1)
    world.append()
    assert world.segments == 4


def test_segment_ms(world: RunTimeWorld) -> None:
    world.clock.advance_ms(HOUR_MS)
    world.append()
    assert world.segments == 3
    world.configure(segment_ms=HOUR_MS // 2)
    world.append()
    assert world.segments == 4


def test_segment_jitter_ms() -> None:
    disk, clock = VirtualDisk(), ManualClock()
    log = open_log(disk, clock, topic_config(), jitter=lambda limit: limit - 1 if limit > 0 else 0)
    log.append_as_leader(batch(), 0)
    log.update_config(topic_config(segment_jitter_ms=50, segment_ms=1000))
    assert log.roll().roll_jitter_ms == 49


def test_segment_index_bytes_and_index_interval_bytes(world: RunTimeWorld) -> None:
    world.configure(index_interval_bytes=1_000_000)
    for _ in range(5):
        world.append()
    assert world.log.active.offset_index.entries == 0
    world.configure(index_interval_bytes=1)
    for _ in range(5):
        world.append()
    assert world.log.active.offset_index.entries == 5
    assert world.segments == 3
    world.configure(index_interval_bytes=1, segment_index_bytes=5 * 8)
    world.append()
    assert world.segments == 4, "a full index begins a new segment"


def test_flush_messages_and_flush_ms(world: RunTimeWorld) -> None:
    assert not world.log.needs_flush(world.clock.time_ms())
    world.configure(flush_messages=12)
    assert world.log.needs_flush(world.clock.time_ms())
    world.configure(flush_messages=13)
    assert not world.log.needs_flush(world.clock.time_ms())
    world.configure(flush_ms=1000)
    assert not world.log.needs_flush(world.clock.time_ms())
    assert world.log.needs_flush(world.clock.time_ms() + 1000)
    world.clock.advance_ms(1000)
    world.log.flush()
    world.append()
    assert not world.log.needs_flush(world.clock.time_ms() + 999), "the clock of flush.ms begins with the last flush"
    assert world.log.needs_flush(world.clock.time_ms() + 1000)


def test_max_message_bytes(world: RunTimeWorld) -> None:
    world.configure(max_message_bytes=100)
    assert world.refusal(lambda: world.append(size=200)) is ErrorCode.MESSAGE_TOO_LARGE
    world.configure(max_message_bytes=1000)
    world.append(size=200)


def test_compression_type_and_level(world: RunTimeWorld) -> None:
    world.append()
    assert world.last_header()[0] is Compression.NONE
    sizes: list[int] = []
    for level in (1, 9):
        world.configure(compression_type="gzip", compression_gzip_level=level)
        before = world.log.active.size
        world.log.append_as_leader(batch(500, size=200), 0)
        sizes.append(world.log.active.size - before)
        assert world.last_header()[0] is Compression.GZIP
    assert sizes[1] < sizes[0]
    for name, codec in (("lz4", Compression.LZ4), ("zstd", Compression.ZSTD), ("snappy", Compression.SNAPPY)):
        world.configure(compression_type=name)
        world.append()
        assert world.last_header()[0] is codec
    world.configure()
    world.append(compression=Compression.LZ4)
    assert world.last_header()[0] is Compression.LZ4


def test_message_timestamp_type_and_window(world: RunTimeWorld) -> None:
    world.append(timestamp=5)
    assert not world.last_header()[1]
    world.configure(message_timestamp_type="LogAppendTime")
    world.append(timestamp=5)
    assert world.last_header()[1]
    world.configure(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    assert world.refusal(lambda: world.append(timestamp=NOW_MS - 1001)) is ErrorCode.INVALID_TIMESTAMP
    assert world.refusal(lambda: world.append(timestamp=NOW_MS + 1002)) is ErrorCode.INVALID_TIMESTAMP
    world.append(timestamp=NOW_MS - 999)


def test_preallocate(world: RunTimeWorld) -> None:
    world.configure(segment_bytes=4096)
    world.log.roll()
    world.append()
    assert world.log.active.file.size() == world.log.active.size
    world.configure(segment_bytes=4096, preallocate="true")
    world.log.roll()
    assert world.log.active.file.size() == 4096


def test_keys_that_are_looked_at_when_they_are_needed(world: RunTimeWorld) -> None:
    """Those that the cleaner, the deletion of files and the leader read from the log each time."""
    world.configure(
        file_delete_delay_ms=5,
        delete_retention_ms=6,
        min_compaction_lag_ms=7,
        max_compaction_lag_ms=8,
        min_cleanable_dirty_ratio=0.25,
        min_insync_replicas=2,
    )
    config = world.log.config
    assert (config.file_delete_delay_ms, config.delete_retention_ms) == (5, 6)
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (7, 8)
    assert (config.min_cleanable_dirty_ratio, config.min_insync_replicas) == (0.25, 2)
