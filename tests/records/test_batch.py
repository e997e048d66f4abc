"""Batches as written are read again, whatever is in them."""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records import native
from odradek.records.batch import (
    HEADER_SIZE,
    BatchBuilder,
    Record,
    check_crc,
    decode_batch,
    decode_placed,
    decode_records,
    encode_batch,
    encode_keyed,
    increment_sequence,
    iter_headers,
    read_header,
)
from odradek.records.compression import Compression
from odradek.records.crc32c import crc32c
from odradek.records.patch import patched, patched_chunks, with_max_timestamp, with_producer
from tests.records.support import message

from . import strategies
from .strategies import RawRecord

common = settings(max_examples=60, derandomize=True, deadline=None)


def expected(records: list[RawRecord], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + i, ts, key, value, tuple(headers)) for i, (ts, key, value, headers) in enumerate(records)]


@common
@given(strategies.records, strategies.compressions, st.integers(0, 2**62))
def test_what_is_written_is_read(records: list[RawRecord], compression: Compression, base_offset: int) -> None:
    batch = encode_batch(records, compression=compression, base_offset=base_offset)
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.compression == compression
    assert header.record_count == len(records) == header.last_offset_delta + 1
    assert header.base_timestamp == records[0][0]
    assert header.max_timestamp == max(record[0] for record in records)
    assert check_crc(batch, 0, header)
    assert decode_records(batch) == expected(records, base_offset)


@common
@given(
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.booleans(),
    st.booleans(),
)
def test_the_header_says_what_was_asked_for(
    base_offset: int, epoch: int, producer_id: int, producer_epoch: int, sequence: int, transactional: bool, control: bool
) -> None:
    batch = encode_batch(
        [(2**40, b"k", None, ()), (2**41, None, b"v", ())],
        base_offset=base_offset,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
        control=control,
    )
    attributes = 0x10 * transactional + 0x20 * control
    fields = (
        base_offset,
        len(batch) - 12,
        epoch,
        2,
        crc32c(batch[21:]),
        attributes,
        1,
        2**40,
        2**41,
        producer_id,
        producer_epoch,
        sequence,
        2,
    )
    assert struct.unpack_from(">qiibIhiqqqhii", batch) == fields


class _Placed(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@common
@given(strategies.records, strategies.compressions, st.integers(0, 2**62), st.integers(-2, 12), st.integers(0, 1))
def test_records_are_read_with_their_place_from_an_offset_on(
    records: list[RawRecord], compression: Compression, base_offset: int, skipped: int, kind: int
) -> None:
    batch = encode_batch(records, compression=compression, base_offset=base_offset, timestamp_type=kind)
    header = read_header(batch)
    output = [_Placed("before", 0, 0, 0, 0, None, None, ())]
    decode_placed(batch, 0, header, _Placed, "t", 7, base_offset + skipped, output)
    wanted = [record for record in decode_batch(batch, 0, header) if record.offset >= base_offset + skipped]
    assert output[1:] == [_Placed("t", 7, offset, stamp, kind, key, value, headers) for offset, stamp, key, value, headers in wanted]
    assert all(type(record) is _Placed for record in output)


def test_records_that_are_forgotten_hold_nothing() -> None:
    """The compiled loop counts the references of what it puts into a record itself."""
    topic, key = "".join(["a", "topic"]), b"k" * 30
    batch = encode_batch([(5, key, None, ())] * 50)
    header = read_header(batch)
    before = sys.getrefcount(topic), sys.getrefcount(None), sys.getrefcount(_Placed)
    for _ in range(20):
        decode_placed(batch, 0, header, _Placed, topic, 7, 0, [])
        decode_batch(batch, 0, header)
    after = sys.getrefcount(topic), sys.getrefcount(None), sys.getrefcount(_Placed)
    assert all(abs(now - then) < 50 for now, then in zip(after, before, strict=True))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_read_with_their_place(magic: int) -> None:
    output: list[_Placed] = []
    for offset in (3, 4):
        raw = message(offset, magic, b"v", key=b"k")
        decode_placed(raw, 0, read_header(raw), _Placed, "t", 7, 4, output)
    assert output == [_Placed("t", 7, 4, 7 if magic else -1, 0, b"k", b"v", ())]


@common
@given(st.lists(st.tuples(strategies.int64, st.none(), st.none(), st.just(())), min_size=1, max_size=5))
def test_timestamps_wrap_as_java_longs_do(records: list[RawRecord]) -> None:
    assert [record.timestamp for record in decode_records(encode_batch(records))] == [record[0] for record in records]


@common
@given(strategies.records, strategies.compressions)
def test_builder_and_function_write_the_same(records: list[RawRecord], compression: Compression) -> None:
    builder = BatchBuilder(1 << 20, compression=compression)
    for record in records:
        assert builder.append(*record)
    assert builder.record_count == len(records)
    closed = builder.close(producer_id=3, producer_epoch=4, base_sequence=5, transactional=True)
    assert closed == encode_batch(records, compression=compression, producer_id=3, producer_epoch=4, base_sequence=5, transactional=True)


@common
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.lists(st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=200)), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=4,
    ),
    strategies.compressions,
)
def test_groups_of_one_timestamp_are_written_as_their_records_would_be(
    groups: list[tuple[int, list[tuple[bytes | None, bytes | None]]]], compression: Compression
) -> None:
    records = [(timestamp, key, value, ()) for timestamp, group in groups for key, value in group]
    size = len(encode_batch(records)) - HEADER_SIZE
    assert encode_keyed(groups, size, compression=compression) == encode_batch(records, compression=compression)
    given_producer = {"producer_id": 3, "producer_epoch": 4, "transactional": True}
    assert encode_keyed(groups, size + 9, **given_producer) == encode_batch(records, **given_producer)
    if len(records) > 1:
        with pytest.raises(OverflowError):
            encode_keyed(groups, size - 1)


def test_builder_keeps_its_limit_but_takes_one_record_of_any_size() -> None:
    builder = BatchBuilder(1000)
    assert builder.append(1, None, b"x" * 5000)
    assert not builder.append(1, None, b"")
    builder = BatchBuilder(1000)
    count = 0
    while builder.append(count, b"key", b"x" * 50, [("h", None)]):
        count += 1
    batch = builder.close()
    assert 900 < len(batch) <= 1000
    assert len(decode_records(batch)) == count


def test_builder_with_a_ratio_collects_more() -> None:
    plain = BatchBuilder(10_000, compression=Compression.ZSTD)
    packed = BatchBuilder(10_000, compression=Compression.ZSTD, expected_ratio=0.1)
    for builder in (plain, packed):
        while builder.append(0, None, b"x" * 90):
            pass
    assert packed.record_count > 9 * plain.record_count
    assert packed.size_estimate <= 10_000


def test_an_empty_builder_does_not_close() -> None:
    with pytest.raises(ValueError, match="at least one"):
        BatchBuilder(100).close()


@pytest.mark.parametrize("value", ["text", 7, 1.5])
def test_keys_and_values_are_bytes(value: object) -> None:
    with pytest.raises(TypeError):
        BatchBuilder(100).append(0, None, value)


def test_bytes_like_values_are_taken() -> None:
    batch = encode_batch([(0, memoryview(b"abcdef")[::2], bytearray(b"v"), ())])  # type: ignore[list-item]
    assert decode_records(batch)[0][2:4] == (b"ace", b"v")


@pytest.mark.parametrize("size", range(HEADER_SIZE))
def test_a_cut_off_header_is_a_protocol_error(size: int) -> None:
    batch = encode_batch([(0, None, b"v", ())])
    with pytest.raises(ProtocolError):
        read_header(batch[:size])
    assert list(iter_headers(batch[:size])) == []


def test_a_cut_off_last_batch_is_left_out() -> None:
    one = encode_batch([(0, None, b"v", ())])
    for size in range(len(one)):
        assert [position for position, _ in iter_headers(one + one[:size])] == [0]


@pytest.mark.parametrize(("at", "octets"), [(8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\x0d"), (8, b"\0\0\0\x20"), (16, b"\x03"), (16, b"\xff")])
def test_impossible_lengths_and_magics_are_corrupt(at: int, octets: bytes) -> None:
    batch = bytearray(encode_batch([(0, None, b"v", ())]))
    batch[at : at + len(octets)] = octets
    with pytest.raises(KafkaError) as raised:
        list(iter_headers(batch))
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def test_empty_batches_and_control_batches() -> None:
    empty = encode_batch([])
    assert decode_records(empty) == []
    control = encode_batch([(0, b"\0\0\0\1", b"", ())], control=True)
    assert read_header(control).is_control
    assert decode_records(control) == []
    assert len(decode_batch(control, 0, read_header(control))) == 1


def test_sequences_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert read_header(encode_batch([(0, None, None, ())] * 3, base_sequence=2**31 - 2)).last_sequence == 0


def test_patching_keeps_the_crc() -> None:
    batch = encode_batch([(5, None, b"v", ())])
    moved = patched(batch, 77, 9)
    header = read_header(moved)
    assert (header.base_offset, header.partition_leader_epoch) == (77, 9)
    assert check_crc(moved, 0, header)
    assert b"".join(patched_chunks(memoryview(batch), 77, 9)) == moved
    stamped = with_max_timestamp(moved, 123, log_append_time=True)
    assert check_crc(stamped, 0, read_header(stamped))
    assert decode_records(stamped)[0].timestamp == 123
    owned = with_producer(batch, 1, 2, 3)
    assert read_header(owned)[9:12] == (1, 2, 3)
    assert check_crc(owned, 0, read_header(owned))


def test_delete_horizon_is_read_from_the_base_timestamp() -> None:
    batch = bytearray(encode_batch([(5, None, b"v", ())]))
    assert read_header(batch).delete_horizon_ms is None
    batch[22] |= 0x40
    assert read_header(batch).delete_horizon_ms == 5


def test_header_keys_that_are_not_text_are_read_with_replacements() -> None:
    batch = bytearray(encode_batch([(5, None, b"v", [("abc", b"x")])]))
    at = batch.index(b"abc")
    batch[at] = 0xFF
    assert decode_records(batch)[0].headers == (("\ufffdbc", b"x"),)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_read(magic: int) -> None:
    raw = message(3, magic, b"v", key=b"k") + message(4, magic, None)
    timestamp = 7 if magic else -1
    assert decode_records(raw) == [Record(3, timestamp, b"k", b"v", ()), Record(4, timestamp, None, None, ())]
    for position, header in iter_headers(raw):
        assert header.magic == magic
        assert check_crc(raw, position, header)
    assert list(iter_headers(raw[:-1])) == list(iter_headers(raw))[:1]
    broken = bytearray(raw)
    broken[-1] ^= 1
    assert not check_crc(broken, len(message(3, magic, b"v", key=b"k")), list(iter_headers(broken))[1][1])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_old_compressed_messages_are_read(magic: int, compression: Compression) -> None:
    from odradek.records.compression import compress

    inner = b"".join(message(offset if magic else 8 + offset, magic, b"v%d" % offset) for offset in range(3))
    data = compress(inner, compression)
    if compression == Compression.LZ4 and magic == 0:
        data = data[:6] + b"\x00" + data[7:]
    raw = message(10, magic, data, attributes=compression)
    assert [(record.offset, record.value) for record in decode_records(raw)] == [(8, b"v0"), (9, b"v1"), (10, b"v2")]


def test_the_lz4_checksum_of_old_messages_is_mended() -> None:
    from odradek.records.compression import fix_legacy_lz4_header

    for frame in (bytes(cramjam.lz4.compress(b"abc" * 100)), bytes(cramjam.lz4.compress(b""))):
        assert fix_legacy_lz4_header(frame) == frame


def test_the_build_under_test_is_the_one_asked_for(build: str) -> None:
    assert native.codec_is_compiled() == (build == "compiled")


@pytest.mark.parametrize("compression", list(Compression))
def test_records_of_log_append_time_have_the_headers_timestamp(compression: Compression) -> None:
    batch = encode_batch([(5, None, b"a", ()), (9, None, b"b", ())], timestamp_type=1, compression=compression)
    assert [record.timestamp for record in decode_records(batch)] == [9, 9]
    assert [record.timestamp for record in decode_records(encode_batch([(5, None, b"a", ()), (9, None, b"b", ())]))] == [5, 9]


def test_the_largest_timestamp_of_a_batch_need_not_be_its_last() -> None:
    header = read_header(encode_batch([(5, None, b"", ()), (9, None, b"", ()), (7, None, b"", ())]))
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)


def test_a_builder_fills_its_limit_to_the_byte() -> None:
    one = len(encode_batch([(0, None, b"x" * 50, ())]))
    two = len(encode_batch([(0, None, b"x" * 50, ())] * 2))
    for limit, fits in ((two, True), (two - 1, False)):
        builder = BatchBuilder(limit)
        assert builder.append(0, None, b"x" * 50)
        assert builder.append(0, None, b"x" * 50) == fits
        assert len(builder.close()) == (two if fits else one)
