"""Arrow columns hold what the records hold."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.arrow import decode_to_arrow, encode_from_arrow, schema
from odradek.records.batch import Record, decode_records, encode_batch
from odradek.records.compression import Compression
from tests.records.support import message

from .strategies import random_records


def rows_of(records: list[Record], kind: int = 0) -> list[tuple[object, ...]]:
    return [
        (r.key, r.value, "t", 3, r.offset, r.timestamp * 1000, kind, [dict(zip(("key", "value"), h, strict=True)) for h in r.headers])
        for r in records
    ]


def rows_in(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    batch.validate(full=True)
    columns = batch.to_pydict()
    columns["timestamp"] = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return list(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_columns_hold_the_records(seed: int) -> None:
    rng = random.Random(seed)
    buffers = []
    offset = 0
    for _ in range(rng.randint(1, 3)):
        buffer = b""
        for _ in range(rng.randint(1, 3)):
            records = random_records(rng)
            buffer += encode_batch(records, compression=rng.choice(list(Compression)), base_offset=offset)
            offset += len(records) + rng.choice([0, 4])
        buffers.append(buffer + buffer[: rng.choice([0, 30])])
    low, high = sorted((rng.randint(0, offset), rng.randint(0, offset)))
    wanted = [record for buffer in buffers for record in decode_records(buffer) if low <= record.offset < high]
    batch = decode_to_arrow(buffers, topic="t", partition=3, min_offset=low, max_offset=high, include_headers=True)
    assert rows_in(batch) == rows_of(wanted)
    plain = decode_to_arrow(buffers, topic="t", partition=3, min_offset=low, max_offset=high)
    assert plain == batch.drop_columns(["headers"])


def test_the_schema_is_sparks() -> None:
    assert schema(include_headers=True) == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    assert len(schema()) == 7


def test_log_append_time_and_old_messages() -> None:
    stamped = encode_batch([(9, None, b"v", ()), (11, None, b"w", ())], timestamp_type=1)
    batch = decode_to_arrow(stamped + message(7, 1, b"x"), topic="t", partition=3, include_headers=True)
    assert rows_in(batch) == [
        (None, b"v", "t", 3, 0, 11_000, 1, []),
        (None, b"w", "t", 3, 1, 11_000, 1, []),
        (None, b"x", "t", 3, 7, 7_000, 0, []),
    ]


def test_timestamps_beyond_microseconds_are_clamped() -> None:
    batch = decode_to_arrow(encode_batch([(2**62, None, None, ()), (-(2**62), None, None, ())]), topic="t", partition=0)
    low, high = -(2**63 - 1) // 1000 * 1000 + 1000, (2**63 - 1) // 1000 * 1000
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [high, low]


def test_header_keys_that_are_not_text() -> None:
    raw = bytearray(encode_batch([(5, None, b"v", [("abc", b"x")])]))
    raw[raw.index(b"abc")] = 0xFF
    batch = decode_to_arrow(bytes(raw), topic="t", partition=0, include_headers=True, check_crcs=False)
    assert batch.column("headers").to_pylist() == [[{"key": "\ufffdbc", "value": b"x"}]]
    with pytest.raises(KafkaError) as raised:
        decode_to_arrow(bytes(raw), topic="t", partition=0)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return encode_batch(
        [(0, None, value, ())], base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


def marker(offset: int, producer_id: int, commit: bool) -> bytes:
    key = b"\0\0\0\1" if commit else b"\0\0\0\0"
    return encode_batch(
        [(0, key, b"\0" * 6, ())], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )


def test_aborted_transactions_are_left_out() -> None:
    log = b"".join(
        [
            transactional(0, 1, b"aborted"),
            transactional(1, 2, b"kept"),
            encode_batch([(0, None, b"plain", ())], base_offset=2),
            marker(3, 2, True),
            transactional(4, 1, b"aborted too"),
            marker(5, 1, False),
            transactional(6, 1, b"later"),
            marker(7, 1, True),
        ]
    )
    batch = decode_to_arrow(log, topic="t", partition=0, aborted=[(1, 0)])
    assert batch.column("value").to_pylist() == [b"kept", b"plain", b"later"]
    everything = decode_to_arrow(log, topic="t", partition=0)
    assert everything.num_rows == 5


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_rows_become_batches(kind: pa.DataType, compression: Compression) -> None:
    values = [None if i % 7 == 0 else f"v{i}" * (i % 5) for i in range(500)]
    column = pa.array(values, pa.string()).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(values).dictionary_encode()
    table = pa.table({"key": column, "value": column, "timestamp": pa.array(range(500), pa.timestamp("ms")), "other": range(500)})
    for data in (table, table.slice(13, 333), table.to_batches()[0].slice(3), pa.concat_tables([table, table.slice(1)])):
        batches = list(encode_from_arrow(data, max_batch_bytes=1000, compression=compression))
        records = decode_records(b"".join(batches))
        wanted = [value.encode() if isinstance(value, str) else value for value in data.column("value").to_pylist()]
        assert [record.value for record in records] == wanted == [record.key for record in records]
        assert [record.timestamp for record in records] == data.column("timestamp").cast(pa.int64()).to_pylist()
        assert len(batches) > 3
        if compression == Compression.NONE:
            assert max(map(len, batches)) <= 1000


def test_rows_without_key_and_timestamp() -> None:
    data = pa.record_batch({"value": [b"a", None]})
    assert decode_records(next(encode_from_arrow(data, default_timestamp_ms=5))) == [
        Record(0, 5, None, b"a", ()),
        Record(1, 5, None, None, ()),
    ]
    nulls = pa.record_batch({"value": pa.nulls(2), "key": pa.nulls(2), "timestamp": pa.array([None, 3], pa.int64())})
    assert [record.timestamp for record in decode_records(next(encode_from_arrow(nulls, default_timestamp_ms=5)))] == [5, 3]
    assert list(encode_from_arrow(data.slice(0, 0))) == []
    with pytest.raises(KeyError):
        list(encode_from_arrow(pa.record_batch({"key": [b"a"]})))


@pytest.mark.parametrize("seed", range(5))
def test_there_and_back(seed: int) -> None:
    raw = encode_batch(random_records(random.Random(seed), 50))
    batch = decode_to_arrow(raw, topic="t", partition=0, include_headers=True)
    back = decode_to_arrow(list(encode_from_arrow(batch, max_batch_bytes=1 << 20)), topic="t", partition=0, include_headers=True)
    assert back == batch
