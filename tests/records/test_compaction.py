"""Compaction of batches: the offset map beside a dict, what stays beside a model, and batches that are not what they say."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records import native
from odradek.records.batch import HEADER_SIZE, BatchHeader, Record, check_crc, decode_batch, encode_batch, read_header
from odradek.records.compaction import FilteredBatch, OffsetMap, filter_batch, index_batch
from odradek.records.compression import Compression
from odradek.records.patch import patched, seal, with_max_timestamp

from .strategies import compressions, int64, mutated, records, timestamps

NOW = 1_700_000_000_000
RETENTION = 1000


def filtered(batch: bytes, offset_map: OffsetMap, *, discard: bool = False, retain_empty: bool = False, now: int = NOW) -> FilteredBatch:
    return filter_batch(
        memoryview(batch),
        read_header(batch),
        offset_map,
        discard_records=discard,
        retain_empty=retain_empty,
        now_ms=now,
        delete_retention_ms=RETENTION,
    )


def put_all(offset_map: OffsetMap, batch: bytes, start_offset: int = 0) -> bool:
    return index_batch(offset_map, memoryview(batch), read_header(batch), start_offset)


def knowing(known: dict[bytes, int], latest: int) -> OffsetMap:
    offset_map = OffsetMap(24 * 100)
    for key, offset in known.items():
        offset_map.put(key, offset)
    offset_map.latest_offset = latest
    return offset_map


# -- the offset map --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
        (63, "5150d1772f50834a503e069a973fbd7c"),
    ],
)
def test_the_hash_is_siphash(size: int, digest: str) -> None:
    """The vectors of the reference implementation: key 00 01 .. 0f, input 00 01 02 .."""
    key = struct.unpack("<QQ", bytes(range(16)))
    assert struct.pack("<QQ", *native.codec.siphash(key, bytes(range(size)))).hex() == digest


def test_high_bytes_are_hashed_whole() -> None:
    inputs = [bytes([0x80] * 3 + [byte] + [high] * 4) for byte in (0, 0x7F, 0x80, 0xFF) for high in (0, 0x80, 0xFF)]
    hashes = {native.codec.siphash((1, 2), source) for source in inputs}
    assert len(hashes) == 12


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2**63 - 2)), max_size=60), st.integers(1, 30))
def test_the_map_is_a_dict_until_it_is_full(puts: list[tuple[bytes, int]], capacity: int) -> None:
    offset_map = OffsetMap(24 * (capacity + 1), load_factor=1.0)
    model: dict[bytes, int] = {}
    assert (offset_map.capacity, offset_map.latest_offset) == (capacity, -1)
    for key, offset in puts:
        if len(model) == capacity:
            with pytest.raises(ValueError, match="full"):
                offset_map.put(key, offset)
            break
        offset_map.put(key, offset)
        model[key] = offset
        assert offset_map.latest_offset == offset
    assert (offset_map.size, offset_map.is_full) == (len(model), len(model) == capacity)
    assert [offset_map.get(key) for key in model] == list(model.values())
    assert offset_map.get(b"never put") == -1
    offset_map.clear()
    assert (offset_map.size, offset_map.latest_offset, offset_map.get(puts[0][0] if puts else b"")) == (0, -1, -1)


def test_it_grows_without_forgetting() -> None:
    offset_map = OffsetMap(24 * 40_000)
    for number in range(20_000):
        offset_map.put(b"%d" % number, number)
    assert offset_map.size == 20_000
    assert [offset_map.get(b"%d" % number) for number in range(20_000)] == list(range(20_000))
    assert all(offset_map.get(b"x%d" % number) == -1 for number in range(5_000))
    offset_map.clear()
    assert offset_map.get(b"5") == -1


def test_how_many_keys_fit() -> None:
    assert OffsetMap(24_000).capacity == 900
    assert OffsetMap(24_000, load_factor=0.5).capacity == 500
    with pytest.raises(ValueError, match="too small"):
        OffsetMap(47)
    with pytest.raises(ValueError, match="too small"):
        OffsetMap(24_000, load_factor=0.0)


def test_the_seed_decides_where_keys_lie_and_nothing_else() -> None:
    maps = [OffsetMap(240, seed=seed) for seed in (bytes(16), b"another seed, 16")]
    for offset_map in maps:
        offset_map.put(b"k", 5)
    assert [offset_map.get(b"k") for offset_map in maps] == [5, 5]


# -- indexing --------------------------------------------------------------------------------------------------------------------


@given(records, compressions, st.integers(0, 60))
def test_a_batch_is_indexed_from_the_start_offset_on(
    raw: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], compression: Compression, start_offset: int
) -> None:
    batch = encode_batch(raw, base_offset=40, compression=compression)
    model = {record[1]: 40 + i for i, record in enumerate(raw) if record[1] is not None and 40 + i >= start_offset}
    offset_map = OffsetMap(24_000)
    assert put_all(offset_map, batch, start_offset)
    assert offset_map.size == len(model)
    assert all(offset_map.get(key) == offset for key, offset in model.items())
    assert offset_map.latest_offset == (39 + len(raw) if 39 + len(raw) >= start_offset else -1)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_full_map_says_how_far_it_came(compression: Compression) -> None:
    offset_map = OffsetMap(24 * 3, load_factor=1.0)
    batch = encode_batch([(NOW, key, b"", ()) for key in (b"a", None, b"b", b"c", b"d")], base_offset=7, compression=compression)
    assert not put_all(offset_map, batch)
    assert (offset_map.size, offset_map.latest_offset, offset_map.is_full) == (2, 9, True)
    assert (offset_map.get(b"b"), offset_map.get(b"c")) == (9, -1)


def test_a_batch_without_keys_still_moves_the_latest_offset() -> None:
    offset_map = OffsetMap(24_000)
    assert put_all(offset_map, encode_batch([(NOW, None, b"v", ())] * 3, base_offset=5))
    assert (offset_map.size, offset_map.latest_offset) == (0, 7)
    empty = patched(encode_batch([]), 9, 0)
    assert put_all(offset_map, empty)
    assert offset_map.latest_offset == 9


# -- filtering -------------------------------------------------------------------------------------------------------------------


def survivors(raw: list[Record], known: dict[bytes, int], latest: int, *, deletes: bool) -> list[Record]:
    """What compaction keeps, in plain words."""
    output: list[Record] = []
    for record in raw:
        newest = record.key is not None and record.offset >= known.get(record.key, -1)
        if record.offset > latest or (newest and (record.value is not None or not deletes)):
            output.append(record)
    return output


few_keys = st.sampled_from([None, b"", b"a", b"b", b"c"])
few_values = st.sampled_from([None, b"", b"vv"])


@given(
    st.lists(st.tuples(timestamps, few_keys, few_values, st.just([("h", b"x")])), min_size=1, max_size=9),
    compressions,
    st.dictionaries(st.sampled_from([b"", b"a", b"b", b"c"]), st.integers(95, 110)),
    st.integers(95, 112),
    st.one_of(st.none(), st.integers(NOW - 5, NOW + 5)),
    st.booleans(),
)
def test_what_stays_is_what_the_model_keeps(
    raw: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    compression: Compression,
    known: dict[bytes, int],
    latest: int,
    horizon: int | None,
    log_append_time: bool,
) -> None:
    batch = encode_batch(raw, base_offset=100, compression=compression, producer_id=5, producer_epoch=1, base_sequence=9)
    if log_append_time:
        batch = with_max_timestamp(batch, NOW, log_append_time=True)
    if horizon is not None:
        changed = bytearray(batch)
        changed[22] |= 0x40
        changed[27:35] = horizon.to_bytes(8, "big")
        seal(changed)
        batch = bytes(changed)
    before = read_header(batch)
    expected = survivors(decode_batch(batch, 0, before), known, latest, deletes=horizon is not None and horizon <= NOW)
    result = filtered(batch, knowing(known, latest))
    assert (result.records_read, result.records_kept) == (len(raw), len(expected))
    if not expected:
        assert result.data is None
        assert result[3:] == (-1, -1, -1)
        return
    assert result.data is not None
    header = read_header(result.data)
    assert decode_batch(result.data, 0, header) == expected
    assert check_crc(result.data, 0, header)
    same: list[str] = ["base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence", "partition_leader_epoch"]
    assert [getattr(header, name) for name in same] == [getattr(before, name) for name in same]
    assert (header.compression, header.is_log_append_time) == (before.compression, before.is_log_append_time)
    if horizon is None and any(record.value is None for record in expected):
        horizon = NOW + RETENTION
    assert header.delete_horizon_ms == horizon
    if bytes(result.data) != batch:
        # Nothing counts as later than no timestamp at all (-1), as in Kafka.
        assert header.max_timestamp == (NOW if log_append_time else max(-1, *[record.timestamp for record in expected]))
    assert result.max_timestamp == header.max_timestamp
    assert result.last_offset == header.last_offset


def test_an_unchanged_batch_is_not_copied() -> None:
    view = memoryview(encode_batch([(NOW, b"k", b"v", ())] * 3, compression=Compression.ZSTD))
    header = read_header(view)
    offset_map = OffsetMap(24_000)
    result = filter_batch(view, header, offset_map, discard_records=False, retain_empty=False, now_ms=NOW, delete_retention_ms=0)
    assert result.data is view


def test_an_emptied_batch_keeps_what_producers_need() -> None:
    raw = [(NOW, b"a", b"v", ())] * 4
    batch = encode_batch(raw, compression=Compression.LZ4, producer_id=8, producer_epoch=2, base_sequence=30, transactional=True)
    batch = patched(batch, 50, 6)
    for discard, known in ((True, {}), (False, {b"a": 90})):
        offset_map = knowing(known, 90)
        result = filtered(batch, offset_map, discard=discard, retain_empty=True)
        assert result.data is not None
        header = read_header(result.data)
        assert (len(result.data), header.record_count, decode_batch(result.data, 0, header)) == (HEADER_SIZE, 0, [])
        assert header == BatchHeader(50, 49, 6, 2, header.crc, 0x10, 3, -1, NOW, 8, 2, 30, 0)
        assert check_crc(result.data, 0, header)
        assert header.last_sequence == 33
        assert result[2:] == (0, NOW, 53, 53)
        # Cleaned once more, it stays or goes as asked.
        assert filtered(bytes(result.data), offset_map, retain_empty=True).data == result.data
        assert filtered(bytes(result.data), offset_map).data is None
        assert filtered(batch, offset_map, discard=discard).data is None


def test_a_marker_gets_its_delete_horizon_once_its_transaction_has_gone() -> None:
    marker = encode_batch([(NOW, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], producer_id=8, producer_epoch=2, transactional=True, control=True)
    view = memoryview(marker)
    offset_map = knowing({b"\0\0\0\1": 99}, 99)
    options = {"discard_records": False, "retain_empty": False, "now_ms": NOW, "delete_retention_ms": RETENTION}
    assert filter_batch(view, read_header(view), offset_map, **options).data is view
    result = filter_batch(view, read_header(view), offset_map, **options, empty_transaction=True)
    assert result.data is not None
    header = read_header(result.data)
    assert (header.delete_horizon_ms, header.is_control, header.is_transactional) == (NOW + RETENTION, True, True)
    assert decode_batch(result.data, 0, header) == decode_batch(marker, 0, read_header(marker))
    again = memoryview(result.data)
    assert filter_batch(again, header, offset_map, **options, empty_transaction=True).data is again


@given(st.lists(int64, min_size=2, max_size=5), int64, st.booleans())
def test_any_timestamps_survive_a_new_base(stamps: list[int], now: int, tombstone: bool) -> None:
    raw = [(timestamp, b"k%d" % index, None if tombstone else b"v", ()) for index, timestamp in enumerate(stamps)]
    batch = encode_batch(raw)
    result = filtered(batch, knowing({b"k0": 5}, 10), now=now % 2**62)
    assert result.data is not None
    kept = decode_batch(result.data, 0, read_header(result.data))
    assert [record.timestamp for record in kept] == stamps[1:]


def test_keyless_records_go_unless_they_are_newer_than_the_map() -> None:
    batch = encode_batch([(NOW, None, b"v", ())] * 4, base_offset=10)
    result = filtered(batch, knowing({}, 11))
    assert result.data is not None
    assert [record.offset for record in decode_batch(result.data, 0, read_header(result.data))] == [12, 13]


@pytest.mark.parametrize("compression", list(Compression))
def test_cleaning_a_log_leaves_the_last_value_of_every_key(compression: Compression) -> None:
    rng = random.Random(compression)
    log: list[bytes] = []
    latest: dict[bytes, Record] = {}
    offset = 0
    for _ in range(40):
        raw = [(NOW + offset + i, b"key %d" % rng.randrange(60), b"%d" % rng.randrange(10**9), ()) for i in range(rng.randint(1, 9))]
        log.append(encode_batch(raw, base_offset=offset, compression=compression))
        latest.update((record.key or b"", record) for record in decode_batch(log[-1], 0, read_header(log[-1])))
        offset += len(raw)
    offset_map = OffsetMap(24_000)
    assert all(put_all(offset_map, batch) for batch in log)
    results = [filtered(batch, offset_map) for batch in log]
    kept = [record for result in results if result.data is not None for record in decode_batch(result.data, 0, read_header(result.data))]
    assert kept == sorted(latest.values())
    assert offset_map.latest_offset == offset - 1


# -- batches that are not what they say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, 2, 4, 2**31 - 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.SNAPPY])
def test_a_count_that_lies(count: int, compression: Compression) -> None:
    batch = bytearray(encode_batch([(NOW, b"k", b"v", ())] * 3, compression=compression))
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    for act in (lambda: put_all(OffsetMap(240), bytes(batch)), lambda: filtered(bytes(batch), OffsetMap(240))):
        with pytest.raises(KafkaError) as error:
            act()
        assert error.value.code == ErrorCode.INVALID_RECORD


def test_decompression_is_bounded() -> None:
    view = memoryview(encode_batch([(NOW, b"k", bytes(100_000), ())], compression=Compression.ZSTD))
    header = read_header(view)
    options = {"discard_records": False, "retain_empty": False, "now_ms": NOW, "delete_retention_ms": 0}
    for act in (
        lambda: index_batch(OffsetMap(240), view, header, 0, limit=50_000),
        lambda: filter_batch(view, header, OffsetMap(240), **options, limit=50_000),  # type: ignore[arg-type]
    ):
        with pytest.raises(KafkaError) as error:
            act()
        assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("seed", range(300))
def test_mutated_batches_are_cleaned_or_refused(seed: int) -> None:
    """Never another error, and never a batch that cannot be read."""
    batch, note = mutated(random.Random(seed))
    offset_map = knowing({}, 3)
    try:
        header = read_header(batch)
        if header.magic != 2 or header.size > len(batch):
            return
        view = memoryview(batch)[: header.size]
        index_batch(OffsetMap(24_000), view, header, 0)
        result = filter_batch(view, header, offset_map, discard_records=False, retain_empty=True, now_ms=NOW, delete_retention_ms=0)
    except (KafkaError, ProtocolError):
        return
    if result.data is not None and result.data is not view:
        cleaned = read_header(result.data)
        assert len(decode_batch(result.data, 0, cleaned)) == cleaned.record_count == result.records_kept, note


def test_a_tombstone_goes_at_its_horizon_and_not_a_millisecond_before() -> None:
    known = knowing({b"k": 1}, 5)
    first = filtered(encode_batch([(NOW, b"k", b"old", ()), (NOW, b"k", None, ())]), known)
    assert first.records_kept == 1
    assert first.data is not None
    stored = bytes(first.data)
    horizon = read_header(stored).delete_horizon_ms
    assert horizon == NOW + RETENTION
    assert filtered(stored, known, now=horizon - 1).records_kept == 1
    assert filtered(stored, known, now=horizon).records_kept == 0
