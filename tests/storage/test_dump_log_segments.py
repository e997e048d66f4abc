"""JVM Kafka's DumpLogSegments reads every file of ours without a complaint, whatever the log has been through."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin
from odradek.storage.disk import OsDisk
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.storage.options import LogOptions
from odradek.storage.recovery import walk_batches
from tests.clock import ManualClock
from tests.storage.compaction_support import Cleanery, compact_config
from tests.storage.jvm_support import dump
from tests.storage.support import batch, marker, topic_config

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SMALL = {"segment_bytes": 20_000, "index_interval_bytes": 500}
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|out of order|Found timestamp|non-consecutive|invalid bytes|Exception|corrupt|does not match|Could not read"
    r"|larger than|Index file|failed",
    re.IGNORECASE,
)
GAPS = re.compile(r"Non-consecutive offsets in \S*/followed-0/\S+\n(?:  \d+ is followed by \d+\n)+|  \d+ is followed by \d+\n")
"""That offsets are missing, as compaction leaves them, is the tool's remark on the JVM's logs too."""
COMPACTED_GAPS = re.compile(r"Non-consecutive offsets in \S+\n(?:  -?\d+ is followed by \d+\n)*|  -?\d+ is followed by \d+\n")


class Shape:
    """A log in a directory of its own, and how many records it must hold in the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / f"{name}-0"
        self.folder.mkdir()
        self.clock = ManualClock()
        self.partition = TopicPartition(name, 0)

    def open(self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0, **config: object) -> Log:
        return load_log(
            OsDisk(),
            self.clock,
            self.partition,
            str(self.folder),
            self.config(**config),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            options=LogOptions(verify_transactions=False),
        )

    def config(self, **config: object) -> TopicConfig:
        return topic_config(**{**SMALL, **config})

    def fill(self, log: Log, count: int, *, epoch: int = 0, compression: Compression | None = Compression.NONE, size: int = 200) -> None:
        for index in range(count):
            chosen = Compression(index % 5) if compression is None else compression
            log.append_as_leader(batch(index % 4 + 1, size=size, timestamp=self.clock.time_ms(), compression=chosen), epoch)
            self.clock.advance_ms(7)

    def idempotent(self, log: Log, count: int) -> None:
        for index in range(count):
            records = batch(2, size=200, producer_id=9, producer_epoch=0, sequence=2 * index, timestamp=self.clock.time_ms())
            log.append_as_leader(records, 0)

    def transactions(self, log: Log, count: int) -> None:
        for index in range(count):
            producer = 20 + index % 3
            data = batch(
                3, producer_id=producer, producer_epoch=0, sequence=index // 3 * 3, transactional=True, timestamp=self.clock.time_ms()
            )
            log.append_as_leader(data, 0)
            end = marker(producer, 0, commit=index % 2 == 0, timestamp=self.clock.time_ms())
            log.append_as_leader(end, 0, origin=AppendOrigin.COORDINATOR)


def compressed(shape: Shape) -> Log:
    log = shape.open()
    shape.fill(log, 400, compression=None)
    return log


def rolled_by_hand(shape: Shape) -> Log:
    log = shape.open()
    for _ in range(5):
        shape.fill(log, 20)
        log.roll()
    return log


def truncated(shape: Shape) -> Log:
    log = shape.open()
    shape.idempotent(log, 150)
    log.truncate_to(230)
    log.truncate_to(101)
    shape.fill(log, 60, epoch=3)
    return log


def started_over(shape: Shape) -> Log:
    log = shape.open()
    shape.fill(log, 100)
    log.truncate_fully_and_start_at(5000)
    shape.fill(log, 100, epoch=2)
    return log


def preallocated(shape: Shape) -> Log:
    log = shape.open(preallocate="true")
    shape.fill(log, 250)
    return log


def preallocated_and_killed(shape: Shape) -> Log:
    shape.fill(shape.open(preallocate="true"), 130)
    log = shape.open(preallocate="true")
    shape.fill(log, 90, epoch=1)
    return log


def torn(shape: Shape) -> Log:
    shape.idempotent(shape.open(), 120)
    last = max(shape.folder.glob("*.log"))
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size - 37)
    log = shape.open()
    assert log.log_end_offset == 238
    shape.fill(log, 50, epoch=1)
    return log


def without_indexes(shape: Shape) -> Log:
    log = shape.open()
    shape.fill(log, 120)
    shape.transactions(log, 30)
    log.close(durable=True)
    for path in [*shape.folder.glob("*.index"), *shape.folder.glob("*.timeindex"), *shape.folder.glob("*.txnindex")]:
        path.unlink()
    log = shape.open()
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 15
    return log


def damaged_indexes(shape: Shape) -> Log:
    rng = random.Random(4)
    log = shape.open()
    shape.fill(log, 200)
    log.close(durable=True)
    for path in [*shape.folder.glob("*.index"), *shape.folder.glob("*.timeindex")]:
        path.write_bytes(rng.randbytes(path.stat().st_size))
    return shape.open()


def retained(shape: Shape) -> Log:
    log = shape.open(retention_bytes=50_000)
    shape.fill(log, 400)
    log.update_high_watermark(log.log_end_offset)
    assert log.delete_old_segments() > 0
    for path in log.take_deletions():
        Path(path).unlink()
    log.maybe_increment_log_start_offset(log.log_start_offset + 13)
    log.delete_old_segments()
    return log


def transactional(shape: Shape) -> Log:
    log = shape.open()
    shape.transactions(log, 200)
    log.append_as_leader(batch(2, producer_id=99, producer_epoch=1, sequence=0, transactional=True, timestamp=shape.clock.time_ms()), 0)
    return log


def followed(shape: Shape) -> Log:
    """Gaps between the batches, as a compacted leader sends them, and epochs that change."""
    log = shape.open()
    offset = 0
    for index in range(200):
        records = batch(2, size=150, base_offset=offset, epoch=index // 50, timestamp=shape.clock.time_ms() + index)
        log.append_as_follower(records, 10)
        offset += 2 + index % 5
    return log


def large_timestamps_first(shape: Shape) -> Log:
    """The time index gets no entry while timestamps fall."""
    log = shape.open(message_timestamp_after_max_ms=1 << 40)
    for index in range(150):
        log.append_as_leader(batch(2, size=200, timestamp=shape.clock.time_ms() + 1_000_000 - 5000 * index), 0)
    return log


def expired_by_time(shape: Shape) -> Log:
    log = shape.open(segment_ms=100)
    shape.fill(log, 150)
    return log


SHAPES: dict[str, Callable[[Shape], Log]] = {
    make.__name__: make
    for make in (
        compressed,
        rolled_by_hand,
        truncated,
        started_over,
        preallocated,
        preallocated_and_killed,
        torn,
        without_indexes,
        damaged_indexes,
        retained,
        transactional,
        followed,
        large_timestamps_first,
        expired_by_time,
    )
}


def test_every_file_of_every_shape_is_read_without_a_complaint(tmp_path: Path) -> None:
    records = 0
    for name, make in SHAPES.items():
        shape = Shape(tmp_path, name)
        log = make(shape)
        config = log.config
        start = log.segments[0].base_offset
        end = log.log_end_offset
        records += sum(header.record_count for segment in log.segments for _, _, _, header in walk_batches(segment))
        log.close(durable=True)
        # What the tool reads is what a broker would start with.
        again = load_log(OsDisk(), shape.clock, shape.partition, str(shape.folder), config, clean=True)
        assert (again.log_start_offset, again.log_end_offset) == (start, end), name
        again.close()
    files = sorted(tmp_path.glob("*/*"))
    by_suffix = {
        suffix: [path for path in files if path.suffix == suffix] for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    }
    assert len(by_suffix[".log"]) > 60
    assert all(len(found) >= 2 for found in by_suffix.values())
    indexes = by_suffix[".index"] + by_suffix[".timeindex"]

    deep = dump(
        by_suffix[".log"], "--deep-iteration", "--print-data-log", "--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"
    )
    assert deep.count("| offset: ") == records
    assert "payload: :0...." in deep
    assert "Non-consecutive offsets" in deep
    said = [
        GAPS.sub("", deep),
        GAPS.sub("", dump(by_suffix[".log"])),
        dump(indexes),
        dump(indexes, "--index-sanity-check"),
        dump(indexes, "--verify-index-only"),
        dump(by_suffix[".txnindex"]),
        dump(by_suffix[".snapshot"]),
    ]
    for text in said:
        assert not COMPLAINTS.search(text), [text[max(0, found.start() - 300) : found.end() + 300] for found in COMPLAINTS.finditer(text)][
            :3
        ]
    assert said[3].count("passed sanity check") + said[3].count(".index is empty.") == len(indexes)
    assert said[5].count("producerId: 2") > 100
    assert "producerId: 9 producerEpoch: 0" in said[6]


def test_compacted_logs_are_read_without_a_complaint(tmp_path: Path) -> None:
    """Keys, tombstones, transactions committed and aborted, every codec; cleaned, grown, and cleaned again."""
    config = compact_config(segment_bytes=4000, index_interval_bytes=300)
    world = Cleanery(OsDisk(), config=config, directories=(str(tmp_path),))
    world.buffer_bytes = 1 << 16
    rng = random.Random(6)
    sequences = {31: 0, 32: 0}
    for turn in range(3):
        for index in range(120):
            key = f"k{rng.randrange(40)}"
            value = None if rng.random() < 0.2 else f"{turn}.{index}" + "." * rng.randrange(80)
            world.put((key, value), (f"other {key}", value), compression=Compression(index % 5))
            if index % 10 == 0:
                producer = 31 + index // 10 % 2
                world.put((key, "transactional"), producer=(producer, 0, sequences[producer]), transactional=True)
                sequences[producer] += 1
                world.end(producer, 0, commit=index % 20 == 0)
            world.clock.advance_ms(500)
        world.roll()
        assert world.clean_all() > 0
        world.clock.advance_ms(120_000)
    for deletion in iter(lambda: world.logs.due_deletions(everything=True), None):
        deletion.run()
    kept = sum(header.record_count for segment in world.log.segments for _, _, _, header in walk_batches(segment))
    assert 0 < kept < 400
    world.logs.shutdown()
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    files = {suffix: sorted(folder.glob(f"*{suffix}")) for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")}
    assert {path.suffix for path in folder.iterdir() if path.name[0] == "0"} == set(files)
    deep = dump(files[".log"], "--deep-iteration", "--print-data-log")
    assert deep.count("| offset: ") == kept
    indexes = files[".index"] + files[".timeindex"]
    for text in (
        deep,
        dump(indexes, "--index-sanity-check"),
        dump(indexes, "--verify-index-only"),
        dump(files[".txnindex"]),
        dump(files[".snapshot"]),
    ):
        text = COMPACTED_GAPS.sub("", text)
        assert not COMPLAINTS.search(text), [text[max(0, found.start() - 300) : found.end() + 300] for found in COMPLAINTS.finditer(text)][
            :3
        ]
