"""Runs of batches with bytes flipped, cut out, put in or lied about, and what the loops over many batches make of them.

The loops of `_runs` and `_scan` walk bare memory, so all that they read and write here ends where the memory ends: an address sanitizer
sees the first byte too much. For whatever a loop takes, the calls for a single batch must come to the same end.
"""

from __future__ import annotations

import contextlib
import ctypes
import random

import pyarrow as pa

from odradek.base.errors import KafkaError, ProtocolError
from odradek.records import native
from odradek.records._runs import RunFilter
from odradek.records.arrow import decode_to_arrow
from odradek.records.batch import decode_records, encode_batch, iter_headers, read_header
from odradek.records.compaction import OffsetMap, filter_batch, index_batch
from odradek.records.compression import Compression
from odradek.records.patch import seal, with_max_timestamp
from odradek.records.runs import index_run
from odradek.records.scan import scan_batches
from odradek.records.validation import AppendRules, validate_append

from .strategies import mutate, random_records

NOW = 1_700_000_000_000
KEYS = [None, b"", b"a", b"bb", bytes(range(64))]
LIMIT = 1 << 20


def exact(data: bytes | bytearray | memoryview) -> memoryview:
    """The bytes in a piece of memory that ends with them, unlike that of bytes and bytearray."""
    return memoryview((ctypes.c_ubyte * len(data)).from_buffer_copy(data)).cast("B") if data else memoryview(bytearray())


def mutated_run(rng: random.Random) -> tuple[bytes, str]:
    """A run of batches, plain ones most of all, some of them mutated; what was done to it."""
    run = bytearray()
    did: list[str] = []
    offset = rng.choice([0, 0, 100, 2**31 - 5, 2**40, 2**63 - 30])
    for _ in range(rng.choice([1, 2, 4, 9])):
        records = random_records(rng, rng.choice([1, 1, 3, 12]))
        records = [(stamp, rng.choice(KEYS) if rng.random() < 0.7 else key, value, each) for stamp, key, value, each in records]
        producer = rng.choice([-1, 7, 2**40])
        batch = bytearray(
            encode_batch(
                records,
                base_offset=min(offset, 2**63 - 1),
                compression=rng.choice([Compression.NONE] * 15 + list(Compression)),
                producer_id=producer,
                producer_epoch=min(producer, 3),
                base_sequence=min(producer, 9),
                transactional=producer >= 0 and rng.random() < 0.05,
                control=rng.random() < 0.03,
            )
        )
        if rng.random() < 0.2:
            batch = bytearray(with_max_timestamp(batch, NOW + 5, log_append_time=True))
        if rng.random() < 0.2:
            batch[22] |= 0x40
            batch[27:35] = (NOW + rng.choice([-1, 0, 1])).to_bytes(8, "big")
            seal(batch)
        offset += len(records) + rng.choice([0, 0, 3])
        if rng.random() < 0.4:
            did.append(f"at {len(run)}:")
            mutate(rng, batch, did, 0.85)
        run += batch
    if rng.random() < 0.1:
        did.append("in all:")
        mutate(rng, run, did, 0.0)
    return bytes(run), " ".join(did)


def treatment(run: bytes, rng: random.Random) -> str:
    """Indexes, filters and scans a range of the run with ample or scarce memory; the same for both builds.

    AssertionError where a loop over many batches and the calls for one differ, or where bytes outside the range matter.
    """
    starts = _starts(run)
    start = rng.choice([0, 0, rng.choice(starts), rng.randint(0, len(run))])
    end = rng.choice([len(run), len(run), rng.randint(start, len(run))])
    return "\n".join((_indexed(run, start, end, rng), _filtered(run, start, end, rng), _scanned(run, start, end, rng)))


def _starts(run: bytes) -> list[int]:
    starts = [0]
    with contextlib.suppress(KafkaError, ProtocolError):
        starts += [position for position, _ in iter_headers(run)]
    return starts


def _known(offset_map: OffsetMap) -> tuple[int, ...]:
    return (offset_map.size, offset_map.latest_offset, *(offset_map.get(key) for key in KEYS if key is not None))


def _indexed(run: bytes, start: int, end: int, rng: random.Random) -> str:
    memory = 24 * rng.choice([2, 3, 8, 40, 5000])
    quick, alone, slow = (OffsetMap(memory, seed=bytes(16)) for _ in range(3))
    whole, part = exact(run), exact(run[start:end])
    start_offset = rng.choice([0, 0, 3, 101, 2**40])
    limit = rng.choice([LIMIT, LIMIT, 200])
    stop = index_run(quick, whole, start, end, start_offset, limit=limit)
    assert index_run(alone, part, 0, len(part), start_offset, limit=limit) == stop - start
    assert _known(quick) == _known(alone), "what lies outside the range was indexed"
    position = 0
    while position < stop - start:
        header = read_header(part, position)
        assert header.size <= limit
        assert index_batch(slow, part[position : position + header.size], header, start_offset, limit=limit)
        position += header.size
    assert position == stop - start
    said = [str(stop), _index_one(quick, part, position, start_offset), _index_one(slow, part, position, start_offset)]
    # What a run has put of a malformed batch may fill the map, which is then found full before the batch is found malformed.
    assert said[1] == said[2] or (quick.is_full and said[1:] == ["False", "INVALID_RECORD"])
    assert _known(quick) == _known(slow), "a run was indexed in another way"
    return f"{said} {_known(quick)}"


def _index_one(offset_map: OffsetMap, part: memoryview, position: int, start_offset: int) -> str:
    """The batch that the run stopped at, the slow way."""
    try:
        header = read_header(part, position)
        if header.size > len(part) - position:
            return "cut off"
        return str(index_batch(offset_map, part[position : position + header.size], header, start_offset, limit=LIMIT))
    except KafkaError as error:
        return error.code.name
    except ProtocolError as error:
        return f"ProtocolError {error}"


class _Books:
    """What a segment's indexes need to know, as the cleaner writes it down batch by batch."""

    def __init__(self, base_offset: int, interval: int) -> None:
        self.base_offset = base_offset
        self.interval = interval
        self.since_entry = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.data = bytearray()
        self.entries: list[list[int]] = []
        self.read = self.kept = 0
        self.first_timestamp: int | None = None

    def add(self, batch: bytes | memoryview, last_offset: int, stamp: int) -> None:
        if self.first_timestamp is None:
            self.first_timestamp = stamp
        if stamp > self.max_timestamp:
            self.max_timestamp = stamp
            self.max_timestamp_offset = last_offset
        if self.since_entry > self.interval:
            self.entries.append([last_offset, len(self.data), self.max_timestamp, self.max_timestamp_offset])
            self.since_entry = 0
        self.since_entry += len(batch)
        self.data += batch


def _filtered(run: bytes, start: int, end: int, rng: random.Random) -> str:
    """Runs from one end of the range to the other; the slow way takes what they leave, as the cleaner does."""
    offset_map = OffsetMap(24 * rng.choice([2, 3, 8, 40, 5000]), seed=bytes(16))
    offset = int.from_bytes(run[start : start + 8], "big", signed=True) if rng.random() < 0.8 else 0
    offset = offset if 0 <= offset < 2**63 - 100 else 0
    for key in KEYS:
        if key is not None and rng.random() < 0.7 and not offset_map.is_full:
            offset_map.put(key, offset + rng.randint(-1, 20) if offset else rng.randint(0, 20))
    offset_map.latest_offset = rng.choice([-1, offset + 2, offset + 10, 2**62])
    retention = rng.choice([0, 86_400_000])
    held = {offset + rng.randint(0, 20) for _ in range(rng.choice([0, 2]))}
    scratch = exact(bytes(rng.choice([0, 1, 61, rng.randint(0, 3000), 1 << 16])))
    marks = memoryview((ctypes.c_longlong * rng.choice([1, 3, 4, 7, 400]))()).cast("B").cast("q")
    flags = exact(bytes(rng.choice([0, 1, 5, 1024])))
    interval = rng.choice([0, 100, 4096])
    quick, slow = _Books(offset, interval), _Books(offset, interval)
    holding = memoryview((ctypes.c_longlong * len(held))(*sorted(held))).cast("B").cast("q") if held else memoryview(b"").cast("q")
    limit = rng.choice([LIMIT, LIMIT, 300])
    runs = native.codec.RunFilter(offset_map.table, limit, NOW, NOW + retention, holding, flags, scratch, marks)
    whole, part = exact(run), exact(run[start:end])
    position = start
    said: list[str] = []
    while position < end:
        stop = _run_once(runs, quick, whole, position, end, scratch, marks)
        before = (stop, runs.copied, runs.tail, runs.records_read, runs.records_kept, runs.entries)
        runs.since_entry, runs.max_timestamp, runs.max_timestamp_offset = slow.since_entry, slow.max_timestamp, slow.max_timestamp_offset
        again = runs.run(part, position - start, end - start)
        after = (again + start, runs.copied, runs.tail + start, runs.records_read, runs.records_kept, runs.entries)
        assert after == before, "what lies outside the range was filtered"
        while position < stop:
            said.append(_filter_one(offset_map, [slow], part, position - start, held, retention))
            assert said[-1] == "ok", f"a run took what the slow way refuses: {said[-1]}"
            position += read_header(part, position - start).size
        assert position == stop
        assert vars(quick) == vars(slow), "a run was filtered in another way"
        if position < end:
            said.append(_filter_one(offset_map, [quick, slow], part, position - start, held, retention))
            size = 0 if said[-1] == "cut off" else int.from_bytes(run[position + 8 : position + 12], "big", signed=True) + 12
            if not 17 <= size <= end - position:
                break
            position += size
    return f"{said} {vars(quick)}"


def _run_once(state: RunFilter, books: _Books, whole: memoryview, start: int, end: int, scratch: memoryview, marks: memoryview) -> int:
    """One run, written down in the books; where it stopped."""
    state.base_offset, state.interval, state.since_entry = books.base_offset, books.interval, books.since_entry
    state.max_timestamp, state.max_timestamp_offset = books.max_timestamp, books.max_timestamp_offset
    stop = state.run(whole, start, end)
    data = bytes(scratch[: state.copied]) + bytes(whole[state.tail : stop])
    if data and books.first_timestamp is None:
        books.first_timestamp = state.first_timestamp
    for at in range(0, state.entries * 4, 4):
        last_offset, position, stamp, stamped = marks[at : at + 4].tolist()
        books.entries.append([last_offset, position + len(books.data), stamp, stamped])
    books.data += data
    books.read += state.records_read
    books.kept += state.records_kept
    books.since_entry, books.max_timestamp, books.max_timestamp_offset = state.since_entry, state.max_timestamp, state.max_timestamp_offset
    return stop


def _filter_one(offset_map: OffsetMap, books: list[_Books], part: memoryview, position: int, held: set[int], retention: int) -> str:
    try:
        header = read_header(part, position)
        if header.size > len(part) - position:
            return "cut off"
        result = filter_batch(
            part[position : position + header.size],
            header,
            offset_map,
            discard_records=False,
            retain_empty=header.last_offset in held,
            now_ms=NOW,
            delete_retention_ms=retention,
            limit=LIMIT,
        )
    except KafkaError as error:
        return error.code.name
    except ProtocolError as error:
        return f"ProtocolError {error}"
    for each in books:
        each.read += result.records_read
        each.kept += result.records_kept
        if result.data is not None:
            each.add(result.data, result.last_offset, result.max_timestamp)
    return "ok"


def _scanned(run: bytes, start: int, end: int, rng: random.Random) -> str:
    limit, check, least = rng.choice([0, 1, 3, 8192]), rng.random() < 0.7, rng.choice([-(2**63), 0, 100])
    scan = scan_batches(exact(run), start, end, limit=limit, check_crcs=check, next_offset=least)
    part = exact(run[start:end])
    alone = scan_batches(part, 0, len(part), limit=limit, check_crcs=check, next_offset=least)
    told = [column.tolist() for column in scan[8:]]
    assert told == [column.tolist() for column in alone[8:]], "what lies outside the range was scanned"
    assert (scan[0], scan.end - start, scan[2:7]) == (alone[0], alone.end, alone[2:7])
    position = 0
    for size, base, last, stamp in zip(scan.sizes, scan.base_offsets, scan.last_offsets, scan.max_timestamps, strict=True):
        header = read_header(part, position)
        assert (header.size, header.base_offset, header.last_offset, header.max_timestamp) == (size, base, last, stamp)
        position += size
    assert position + start == scan.end
    return f"{scan[:7]} {told}"


RULES = AppendRules(100_000, max_uncompressed=1 << 20)


def columns(batch: bytes) -> dict[str, object]:
    rows = decode_to_arrow(batch, topic="t", partition=0, include_headers=True, check_crcs=False, limit=1 << 20)
    rows.validate(full=True)
    at = rows.schema.get_field_index("timestamp")
    return rows.set_column(at, "timestamp", rows.column(at).cast(pa.int64())).to_pydict()  # the calendar ends before the timestamps do


def compacted(batch: bytes) -> tuple[object, ...]:
    """What indexing and filtering make of the batch, and of half of its keys."""
    header = read_header(batch)
    view = memoryview(batch)[: header.size]
    offset_map = OffsetMap(24 * 500, seed=bytes(16))
    done = index_batch(offset_map, view, header, 0, limit=1 << 20)
    offset_map.latest_offset = header.base_offset + 3
    result = filter_batch(
        view, header, offset_map, discard_records=False, retain_empty=True, now_ms=5, delete_retention_ms=5, limit=1 << 20
    )
    return done, offset_map.size, result._replace(data=None), bytes(result.data or b"")


def verdict(batch: bytes) -> str:
    """What becomes of the batch on its way in and out; the same for both builds."""
    words: list[str] = []
    for act in (
        lambda: [len(records := decode_records(batch, limit=1 << 20)), *records],
        lambda: validate_append(memoryview(batch), 0, read_header(batch), RULES, now_ms=1_700_000_000_000)[2:],
        lambda: columns(batch),
        lambda: list(iter_headers(batch)),
        lambda: [part.tolist() if isinstance(part, memoryview) else part for part in scan_batches(batch, next_offset=-(2**63))],
        lambda: compacted(batch),
    ):
        try:
            words.append(str(act()))
        except KafkaError as error:
            words.append(error.code.name)
        except ProtocolError as error:
            words.append(f"ProtocolError {error}")
    return "\n".join(words)
