"""Runs of plain batches end up as one batch after the other does: the same map, the same bytes, the same index entries."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import KafkaError, ProtocolError
from odradek.records.batch import encode_batch, iter_headers, read_header
from odradek.records.compaction import OffsetMap, filter_batch, index_batch
from odradek.records.compression import Compression
from odradek.records.patch import patched, seal, with_max_timestamp
from odradek.records.runs import FilteredRun, IndexEntry, RunFilter, SegmentBooks, index_run, is_plain

from .strategies import RawRecord, mutated

NOW = 1_700_000_000_000
RETENTION = 86_400_000
KEYS = [b"", b"a", b"bb", b"ccc" * 9, bytes(range(64))]


def plain_batch(rng: random.Random, offset: int) -> bytes:
    """A batch as a producer makes it, or as an earlier cleaning left it: offsets missing, a delete horizon, log append time."""
    records: list[RawRecord] = []
    timestamp = rng.choice([0, 5, NOW, NOW - 10**6])
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        timestamp = max(0, timestamp + rng.choice([0, 1, -1, 1000, 10**9]))
        key = rng.choice([*KEYS, None]) if rng.random() < 0.8 else rng.randbytes(8)
        records.append((rng.choice([timestamp, timestamp, -1]), key, rng.choice([None, b"", b"v" * 100, b"value"]), []))
    producer = rng.choice([-1, 77])
    batch = bytearray(
        encode_batch(records, base_offset=offset, producer_id=producer, producer_epoch=min(producer, 3), base_sequence=min(producer, 9))
    )
    if rng.random() < 0.2:
        batch = bytearray(with_max_timestamp(bytes(batch), NOW + 5, log_append_time=True))
    if rng.random() < 0.2:
        batch[22] |= 0x40
        batch[27:35] = (NOW + rng.choice([-1, 0, 1])).to_bytes(8, "big")
    if rng.random() < 0.2:
        batch[23:27] = (len(records) + 3).to_bytes(4, "big")
    seal(batch)
    return bytes(batch)


def other_batch(rng: random.Random, offset: int) -> bytes:
    """A batch that a run stops at."""
    record: RawRecord = (NOW, rng.choice(KEYS), b"v", [])
    kind = rng.randrange(4)
    if kind == 0:
        return encode_batch([record], base_offset=offset, compression=rng.choice([Compression.LZ4, Compression.GZIP]))
    if kind == 1:
        return encode_batch([record], base_offset=offset, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    if kind == 2:
        return patched(encode_batch([]), offset, 0)
    marker = (NOW, b"\0\0\0\1", b"\0\0\0\0\0\0", ())
    return encode_batch([marker], base_offset=offset, producer_id=5, producer_epoch=0, transactional=True, control=True)


def make_log(rng: random.Random, batches: int, others: float) -> bytes:
    log = bytearray()
    offset = rng.choice([0, 100, 2**40])
    for _ in range(batches):
        batch = other_batch(rng, offset) if rng.random() < others else plain_batch(rng, offset)
        log += batch
        offset = read_header(batch).next_offset + rng.choice([0, 0, 3])
    return bytes(log)


def index_slowly(offset_map: OffsetMap, log: memoryview, start_offset: int) -> bool:
    return all(index_batch(offset_map, log[at : at + each.size], each, start_offset) for at, each in iter_headers(log))


def index_quickly(offset_map: OffsetMap, log: memoryview, start_offset: int) -> bool:
    position = 0
    while position < len(log):
        if is_plain(log, position):
            position = index_run(offset_map, log, position, len(log), start_offset)
            if position == len(log):
                break
        header = read_header(log, position)
        if not index_batch(offset_map, log[position : position + header.size], header, start_offset):
            return False
        position += header.size
    return True


@pytest.mark.parametrize("seed", range(60))
def test_the_map_becomes_the_same(seed: int) -> None:
    rng = random.Random(seed)
    log = memoryview(make_log(rng, 60, rng.choice([0.0, 0.2])))
    headers = [header for _, header in iter_headers(log)]
    start_offset = rng.choice([0, headers[20].base_offset, headers[20].last_offset])
    slots = rng.choice([4, 20, 10_000])
    maps = [OffsetMap(24 * slots, seed=bytes(16)) for _ in range(2)]
    answers = [index_slowly(maps[0], log, start_offset), index_quickly(maps[1], log, start_offset)]
    assert answers[0] == answers[1]
    assert (maps[0].size, maps[0].latest_offset) == (maps[1].size, maps[1].latest_offset)
    assert [maps[0].get(key) for key in KEYS] == [maps[1].get(key) for key in KEYS]


def test_a_run_makes_the_map_grow() -> None:
    log = memoryview(b"".join(encode_batch([(NOW, b"%d" % number, b"v", ())], base_offset=number) for number in range(9000)))
    offset_map = OffsetMap(24 * 100_000)
    assert index_run(offset_map, log, 0, len(log), 0) == len(log)
    assert (offset_map.size, offset_map.latest_offset) == (9000, 8999)
    assert [offset_map.get(b"%d" % number) for number in range(9000)] == list(range(9000))


def test_what_lies_before_the_start_offset_does_not_count() -> None:
    log = memoryview(b"".join(encode_batch([(NOW, b"k", b"v", ())], base_offset=offset) for offset in range(10)))
    offset_map = OffsetMap(24_000)
    assert index_run(offset_map, log, 0, len(log), 10) == len(log)
    assert (offset_map.size, offset_map.latest_offset) == (0, -1)


@pytest.mark.parametrize("seed", range(12))
def test_no_run_takes_what_is_not_plain(seed: int) -> None:
    """Whether a transactional batch counts is for the cleaner to say, which knows the aborted ones."""
    rng = random.Random(seed)
    first = encode_batch([(NOW, b"k", b"v", ())])
    log = memoryview(first + other_batch(rng, 1))
    runs = RunFilter(OffsetMap(24_000), buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    assert runs.run(log, 0, len(log), SegmentBooks(0, 4096, 0, -1, 0)).end == len(first)
    header = read_header(log, len(first))
    other = header.is_compressed or header.is_transactional or header.is_control
    assert is_plain(log, len(first)) != other
    assert index_run(OffsetMap(24_000), log, 0, len(log), 0) == (len(first) if other else len(log))


class Segment:
    """The books of a segment as the cleaner keeps them batch by batch."""

    def __init__(self, base_offset: int, interval: int) -> None:
        self.books = SegmentBooks(base_offset, interval, 0, -1, base_offset)
        self.first_timestamp: int | None = None
        self.data = bytearray()
        self.entries: list[IndexEntry] = []
        self.read = self.kept = 0

    def append(self, batch: bytes | memoryview, last_offset: int, stamp: int) -> None:
        books = self.books
        if self.first_timestamp is None:
            self.first_timestamp = stamp
        if stamp > books.max_timestamp:
            books = books._replace(max_timestamp=stamp, max_timestamp_offset=last_offset)
        since = books.bytes_since_index_entry
        if since > books.index_interval_bytes:
            self.entries.append(IndexEntry(last_offset, len(self.data), books.max_timestamp, books.max_timestamp_offset))
            since = 0
        self.books = books._replace(bytes_since_index_entry=since + len(batch))
        self.data += batch

    def append_run(self, run: FilteredRun) -> None:
        if run.size and self.first_timestamp is None:
            self.first_timestamp = run.first_timestamp
        self.entries += [entry._replace(position=entry.position + len(self.data)) for entry in run.entries]
        self.data += b"".join(run.data)
        self.books = run.books
        self.read += run.records_read
        self.kept += run.records_kept
        assert run.size == sum(len(part) for part in run.data)

    def filter(self, offset_map: OffsetMap, log: memoryview, position: int, held: set[int]) -> int:
        """One batch; the position behind it."""
        header = read_header(log, position)
        result = filter_batch(
            log[position : position + header.size],
            header,
            offset_map,
            discard_records=False,
            retain_empty=header.last_offset in held,
            now_ms=NOW,
            delete_retention_ms=RETENTION,
        )
        self.read += result.records_read
        self.kept += result.records_kept
        if result.data is not None:
            self.append(result.data, result.last_offset, result.max_timestamp)
        return position + header.size

    def state(self) -> tuple[object, ...]:
        return bytes(self.data), self.books, self.first_timestamp, self.entries, self.read, self.kept


def filter_quickly(segment: Segment, offset_map: OffsetMap, log: memoryview, held: set[int], buffer_bytes: int) -> int:
    """Returns how many batches went the slow way."""
    runs = RunFilter(offset_map, buffer_bytes=buffer_bytes, held_offsets=held, now_ms=NOW, delete_retention_ms=RETENTION)
    position = slow = 0
    while position < len(log):
        run = runs.run(log, position, len(log), segment.books)
        segment.append_run(run)
        position = run.end
        if position < len(log):
            position = segment.filter(offset_map, log, position, held)
            slow += 1
    return slow


@pytest.mark.parametrize("seed", range(150))
def test_what_stays_is_the_same(seed: int) -> None:
    rng = random.Random(seed)
    log = memoryview(make_log(rng, rng.choice([1, 60]), rng.choice([0.0, 0.0, 0.3])))
    headers = [header for _, header in iter_headers(log)]
    offset_map = OffsetMap(240_000)
    for key in KEYS:
        if rng.random() < 0.7:
            offset_map.put(key, rng.choice(headers).last_offset)
    offset_map.latest_offset = rng.choice([-1, rng.choice(headers).last_offset, headers[-1].last_offset])
    held = {header.last_offset for header in rng.sample(headers, min(3, len(headers)))}
    interval = rng.choice([0, 100, 4096])
    slow, quick = (Segment(headers[0].base_offset, interval) for _ in range(2))
    position = 0
    while position < len(log):
        position = slow.filter(offset_map, log, position, held)
    filter_quickly(quick, offset_map, log, held, rng.choice([61, 500, 1 << 20]))
    assert quick.state() == slow.state()


def test_nothing_of_a_plain_log_goes_the_slow_way() -> None:
    log = memoryview(make_log(random.Random(1), 200, 0.0))
    headers = [header for _, header in iter_headers(log)]
    offset_map = OffsetMap(240_000)
    index_slowly(offset_map, log, 0)
    segment = Segment(headers[0].base_offset, 4096)
    assert filter_quickly(segment, offset_map, log, set(), 1 << 20) == 0
    assert 0 < segment.kept < segment.read
    again = Segment(headers[0].base_offset, 4096)
    assert filter_quickly(again, offset_map, log, {headers[-1].last_offset}, 1 << 20) <= 1


def test_what_does_not_change_is_not_copied() -> None:
    batches = [encode_batch([(NOW, b"%d" % number, b"v", ())], base_offset=number) for number in range(10)]
    log = memoryview(b"".join(batches))
    offset_map = OffsetMap(24_000)
    offset_map.put(b"0", 5)
    offset_map.latest_offset = 9
    runs = RunFilter(offset_map, buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    run = runs.run(log, 0, len(log), SegmentBooks(0, 4096, 0, -1, 0))
    (part,) = run.data
    assert isinstance(part, memoryview)
    assert part.obj is log.obj
    assert part == b"".join(batches[1:])


def test_offsets_that_do_not_fit_into_the_segment_are_left() -> None:
    log = memoryview(encode_batch([(NOW, b"k", b"v", ())], base_offset=2**31 + 7))
    runs = RunFilter(OffsetMap(24_000), buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    ends = {base: runs.run(log, 0, len(log), SegmentBooks(base, 4096, 0, -1, 0)).end for base in (7, 8, 2**31 + 8)}
    assert ends == {7: 0, 8: len(log), 2**31 + 8: 0}


def test_a_wrong_checksum_is_left() -> None:
    good = encode_batch([(NOW, b"k", b"v", ())])
    bad = bytearray(good)
    bad[-2] ^= 1
    log = memoryview(good + bytes(bad))
    runs = RunFilter(OffsetMap(24_000), buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    run = runs.run(log, 0, len(log), SegmentBooks(0, 4096, 0, -1, 0))
    assert (run.end, run.records_kept) == (len(good), 1)


def test_ranges_outside_the_buffer_are_refused() -> None:
    log = memoryview(bytes(100))
    runs = RunFilter(OffsetMap(24_000), buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=0)
    for start, end in ((-1, 10), (0, 101), (11, 10)):
        with pytest.raises(ValueError, match="from"):
            index_run(OffsetMap(24_000), log, start, end, 0)
        with pytest.raises(ValueError, match="from"):
            runs.run(log, start, end, SegmentBooks(0, 4096, 0, -1, 0))


@pytest.mark.parametrize("seed", range(200))
def test_mutated_batches_are_treated_alike(seed: int) -> None:
    """Whatever a run takes, the slow way takes to the same end."""
    rng = random.Random(seed)
    batch, note = mutated(rng)
    if rng.random() < 0.5 and len(batch) > 61:
        data = bytearray(batch)
        seal(data)
        batch = bytes(data)
    log = memoryview(batch)
    offset_map = OffsetMap(24_000)
    offset_map.put(b"a", 2)
    quick, slow = Segment(0, 4096), Segment(0, 4096)
    runs = RunFilter(offset_map, buffer_bytes=1000, held_offsets=(), now_ms=NOW, delete_retention_ms=RETENTION)
    run = runs.run(log, 0, len(log), quick.books)
    indexed = index_run(OffsetMap(24_000), log, 0, len(log), 0)
    quick.append_run(run)
    try:
        position = index = 0
        while position < run.end:
            position = slow.filter(offset_map, log, position, set())
        while index < indexed:
            header = read_header(log, index)
            assert index_batch(OffsetMap(24_000), log[index : index + header.size], header, 0)
            index += header.size
    except (KafkaError, ProtocolError) as error:
        pytest.fail(f"{note}: {error}")
    assert quick.state() == slow.state(), note


@pytest.mark.parametrize("bits", [0x01, 0x02, 0x03, 0x04, 0x10, 0x20])
def test_a_batch_that_is_not_plain_ends_a_run_even_if_its_bytes_look_like_records(bits: int) -> None:
    batch = bytearray(encode_batch([(0, b"k", b"v", ())]))
    batch[22] |= bits
    seal(batch)
    offset_map = OffsetMap(1000)
    assert index_run(offset_map, memoryview(batch), 0, len(batch), 0) == 0
    assert offset_map.size == 0
