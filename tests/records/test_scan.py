"""Scanning many batches in one call: columns against the headers read one by one, and every reason to stop."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import KafkaError, ProtocolError
from odradek.records import crc32c, native
from odradek.records.batch import HEADER_SIZE, BatchHeader, check_crc, encode_batch, iter_headers, read_header
from odradek.records.compression import Compression
from odradek.records.patch import patched, seal
from odradek.records.scan import IndexEntries, Scan, ScanEnd, index_entries, scan_batches

from .strategies import random_records


def log_of(rng: random.Random, batches: int, *, gaps: bool = False) -> bytes:
    """Batches back to back, with offsets counting up."""
    output = b""
    offset = 0
    for _ in range(batches):
        records = random_records(rng)
        producer = rng.choice([-1, 0, 1 << 40])
        batch = encode_batch(
            records,
            compression=rng.choice(list(Compression)),
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else rng.choice([0, 32767]),
            base_sequence=-1 if producer < 0 else rng.choice([0, 2**31 - 1]),
            transactional=producer >= 0 and rng.random() < 0.5,
            timestamp_type=rng.choice([0, 1]),
        )
        offset += rng.choice([0, 0, 7]) if gaps else 0
        output += patched(batch, offset, rng.choice([-1, 0, 9, 2**31 - 1]))
        offset += len(records)
    return output


def rows(scan: Scan) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in scan[7:]), strict=True))


def row(position: int, header: BatchHeader) -> tuple[int, ...]:
    return (
        position,
        header.size,
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


@given(st.integers(0, 2**32), st.integers(0, 6), st.booleans(), st.binary(max_size=3))
def test_the_columns_are_the_headers(seed: int, batches: int, gaps: bool, before: bytes) -> None:
    log = log_of(random.Random(seed), batches, gaps=gaps)
    headers = [row(len(before) + position, header) for position, header in iter_headers(log)]
    scan = scan_batches(before + log, len(before))
    assert (scan.reason, scan.end, scan.needed, scan.batches) == (ScanEnd.BUFFER, len(before + log), 0, batches)
    assert rows(scan) == headers
    assert scan.has_producers == any(header[7] >= 0 for header in headers)
    ends = [0, *(header[3] + 1 for header in headers)]
    assert scan.contiguous == all(header[2] == end for header, end in zip(headers, ends, strict=False))
    assert scan.next_offset == ends[-1]


@given(st.integers(0, 2**32), st.integers(0, 4))
def test_a_limit_stops_it_and_the_next_call_goes_on(seed: int, limit: int) -> None:
    log = log_of(random.Random(seed), 3)
    whole = scan_batches(log)
    first = scan_batches(log, limit=limit)
    assert rows(first) == rows(whole)[:limit]
    assert first.reason == (ScanEnd.LIMIT if limit < 3 else ScanEnd.BUFFER)
    rest = scan_batches(log, first.end, next_offset=first.next_offset)
    assert rows(first) + rows(rest) == rows(whole)
    assert rest.next_offset == whole.next_offset


def test_wherever_the_buffer_ends_it_asks_for_the_rest() -> None:
    log = log_of(random.Random(3), 2)
    first = read_header(log).size
    second = len(log) - first
    for end in range(len(log)):
        scan = scan_batches(log, end=end)
        start = first if end >= first else 0
        assert (scan.batches, scan.end) == (start > 0, start)
        if end == start:
            assert (scan.reason, scan.needed) == (ScanEnd.BUFFER, 0)
        else:
            needed = 17 if end - start < 17 else (first, second)[start > 0]
            assert (scan.reason, scan.needed) == (ScanEnd.CUT_OFF, needed)


def entries_one_by_one(scan: Scan, begin: int, base: int, interval: int, before: IndexEntries) -> IndexEntries:
    offsets, times = before.offsets, before.times
    largest, largest_offset, since, last_time, last_time_offset = before[2:]
    for position, size, _, last_offset, _, timestamp, *_ in rows(scan):
        if timestamp > largest:
            largest, largest_offset = timestamp, last_offset
        if since > interval:
            offsets += struct.pack(">ii", last_offset - base, begin + position)
            since = 0
            if largest > last_time:
                last_time, last_time_offset = largest, largest_offset
                times += struct.pack(">qi", last_time, last_time_offset - base)
        since += size
    return IndexEntries(offsets, times, largest, largest_offset, since, last_time, last_time_offset)


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([0, 1, 100, 300, 5000]), st.integers(0, 4), st.integers(0, 6))
def test_index_entries_come_as_they_come_one_by_one(seed: int, batches: int, interval: int, before: int, split: int) -> None:
    rng = random.Random(seed)
    whole = scan_batches(log_of(rng, batches))
    base, begin = rng.choice([0, -7]), rng.choice([0, 1 << 30])
    start = IndexEntries(b"", b"", rng.choice([-1, 1 << 41]), before, 100 * before, rng.choice([-1, 1 << 40]), -1)
    first = scan_batches(log_of(random.Random(seed), batches), limit=split)
    found = start
    for scan, skip in ((first, 0), (whole, first.batches)):
        kept = scan._replace(batches=scan.batches - skip, **{name: getattr(scan, name)[skip:] for name in Scan._fields[7:]})
        got = index_entries(
            kept,
            kept.batches,
            begin=begin,
            base_offset=base,
            interval=interval,
            max_timestamp=found.max_timestamp,
            max_timestamp_offset=found.max_timestamp_offset,
            bytes_since_entry=found.bytes_since_entry,
            last_time=found.last_time,
        )
        if not got.times:
            assert got.last_time_offset == -1
            got = got._replace(last_time_offset=found.last_time_offset)
        found = got._replace(offsets=found.offsets + got.offsets, times=found.times + got.times)
    assert found == entries_one_by_one(whole, begin, base, interval, start)


def test_entries_need_room() -> None:
    scan = scan_batches(log_of(random.Random(5), 3))
    columns = [scan.positions, scan.sizes, scan.last_offsets, scan.max_timestamps]
    room = memoryview(bytearray(100))
    for short in range(6):
        arguments = [*columns, room, room]
        arguments[short] = arguments[short][:2]
        with pytest.raises(ValueError, match="do not fit"):
            native.codec.index_entries(*arguments[:4], 0, 0, 0, *arguments[4:], -1, 0, 0, -1)


@given(st.integers(0, 2**32), st.data())
def test_any_bit_that_the_crc_covers_stops_it(seed: int, data: st.DataObject) -> None:
    log = bytearray(log_of(random.Random(seed), 3))
    second = list(iter_headers(bytes(log)))[1]
    bit = data.draw(st.integers((second[0] + 17) * 8, (second[0] + second[1].size) * 8 - 1))
    log[bit >> 3] ^= 1 << (bit & 7)
    scan = scan_batches(log)
    assert (scan.batches, scan.end, scan.reason, scan.needed) == (1, second[0], ScanEnd.WRONG_CRC, second[1].size)


def test_crcs_are_left_alone_when_nobody_asks() -> None:
    log = bytearray(log_of(random.Random(1), 2))
    log[-1] ^= 1
    assert scan_batches(log, check_crcs=False).reason == ScanEnd.BUFFER
    assert scan_batches(log).batches == 1


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48, -(2**31)])
def test_a_length_that_cannot_be(length: int) -> None:
    log = bytearray(log_of(random.Random(1), 1))
    log[8:12] = length.to_bytes(4, "big", signed=True)
    assert scan_batches(log)[:4] == (0, 0, ScanEnd.MALFORMED, 0)


@pytest.mark.parametrize(("magic", "reason"), [(0, ScanEnd.LEGACY), (1, ScanEnd.LEGACY), (3, ScanEnd.MALFORMED), (255, ScanEnd.MALFORMED)])
def test_another_magic(magic: int, reason: ScanEnd) -> None:
    log = bytearray(log_of(random.Random(1), 1))
    log[16] = magic
    assert scan_batches(log)[:4] == (0, 0, reason, len(log) if reason == ScanEnd.LEGACY else 0)


@pytest.mark.parametrize("base_offset", [0, 4, -1, -(2**63), 2**63 - 1, 2**63 - 2])
def test_offsets_must_rise(base_offset: int) -> None:
    batch = encode_batch([(5, b"k", b"v", ())] * 2)
    scan = scan_batches(patched(batch, base_offset, 0), next_offset=5)
    assert (scan.batches, scan.reason, scan.next_offset) == (0, ScanEnd.OFFSETS, 5)
    assert scan_batches(patched(batch, 5, 0), next_offset=5).next_offset == 7


def test_a_batch_that_ends_before_it_begins() -> None:
    batch = bytearray(encode_batch([(5, b"k", b"v", ())]))
    batch[23:27] = b"\xff\xff\xff\xff"
    seal(batch)
    assert scan_batches(batch).reason == ScanEnd.OFFSETS


def test_records_missing_within_a_batch_are_a_gap() -> None:
    batch = bytearray(encode_batch([(5, b"k", b"v", ())] * 2))
    batch[23:27] = (2).to_bytes(4, "big")
    seal(batch)
    scan = scan_batches(batch)
    assert (scan.batches, scan.contiguous, scan.next_offset) == (1, False, 3)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 6), (4, 3)])
def test_a_range_outside_the_buffer(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="Nothing can be scanned"):
        scan_batches(b"12345", start, end)


@given(st.integers(0, 2**32))
def test_damage_is_found_where_reading_one_by_one_finds_it(seed: int) -> None:
    rng = random.Random(seed)
    log = bytearray(log_of(rng, 3))
    for _ in range(rng.randint(1, 2)):
        log[rng.randrange(len(log))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
    good = []
    next_offset = 0
    try:
        for position, header in iter_headers(log):
            if header.magic != 2 or not check_crc(log, position, header) or header.base_offset < next_offset:
                break
            good.append(row(position, header))
            next_offset = header.next_offset
    except (KafkaError, ProtocolError):
        pass
    assert rows(scan_batches(log)) == good


@given(st.binary(max_size=HEADER_SIZE * 2))
def test_the_checksum_is_the_librarys(data: bytes) -> None:
    assert native.codec.crc32c(data) == crc32c.crc32c(data)
