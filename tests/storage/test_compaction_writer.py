"""A run of batches leaves a cleaned segment as its batches do, appended one by one: data, both indexes, first and greatest timestamp."""

from __future__ import annotations

import random

import pytest

from odradek.records.batch import encode_batch, iter_headers
from odradek.records.compaction import OffsetMap
from odradek.records.runs import RunFilter
from odradek.storage.compaction.writer import CleanedSegment
from odradek.storage.names import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX
from odradek.storage.segment import SegmentLimits
from odradek.storage.txn_index import AbortedTransaction
from odradek.testing.simulation.disk import NONE, VirtualDisk

NOW = 1_700_000_000_000


def contents(disk: VirtualDisk, segment: CleanedSegment) -> tuple[object, ...]:
    segment.complete([], NOW)
    found: list[object] = [segment.first_timestamp, segment.max_timestamp, segment.max_timestamp_offset, segment.size]
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        file = disk.open(segment.path(suffix), readonly=True)
        found.append(file.pread(file.size(), 0))
        file.close()
    return tuple(found)


@pytest.mark.parametrize("interval", [0, 100, 1000])
@pytest.mark.parametrize("cut", [700, 100_000])
def test_runs_and_single_batches_make_the_same_segment(interval: int, cut: int) -> None:
    rng = random.Random(interval)
    batches = [encode_batch([(NOW + rng.randrange(500), b"%d" % number, b"v" * 40, ())], base_offset=number) for number in range(100)]
    log = memoryview(b"".join(batches))
    limits = SegmentLimits(interval, 1 << 20)
    disks = [VirtualDisk(), VirtualDisk()]
    for disk in disks:
        disk.makedirs("/data")
    single, runs = (CleanedSegment(disk, "/data", 0, limits, 512) for disk in disks)
    offset_map = OffsetMap(24_000)
    for number in range(0, 100, 3):
        offset_map.put(b"%d" % number, 200)
    kept = RunFilter(offset_map, buffer_bytes=1 << 16, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    position = 0
    while position < len(log):
        run = kept.run(log, position, min(position + cut, len(log)), runs.books)
        runs.append_run(run)
        assert run.end > position
        position = run.end
    for at, header in iter_headers(log):
        if header.base_offset % 3:
            single.append(log[at : at + header.size], header.last_offset, header.max_timestamp)
    expected = contents(disks[0], single)
    assert contents(disks[1], runs) == expected
    assert expected[5], "there are index entries to compare"


def test_a_completed_segment_and_all_its_indexes_survive_a_power_cut() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data")
    disk.fsync_dir("/")
    cleaned = CleanedSegment(disk, "/data", 0, SegmentLimits(0, 1 << 20), 512)
    for number in range(20):
        data = encode_batch([(NOW, b"k", b"v" * 40, ())], base_offset=number)
        cleaned.append(memoryview(data), number, NOW)
    cleaned.complete([AbortedTransaction(9, 3, 7, 8)], NOW)
    survivor = disk.crash(random.Random(1), names=NONE, data=NONE)
    for suffix in SEGMENT_SUFFIXES:
        content = disk.read_bytes(cleaned.path(suffix))
        assert content, suffix
        assert survivor.read_bytes(cleaned.path(suffix)) == content, suffix
