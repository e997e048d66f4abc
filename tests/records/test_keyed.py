"""Values stored in tables while they are read, compared with the records as they are decoded one by one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records import native
from odradek.records.batch import decode_batch, encode_batch, iter_headers
from odradek.records.compression import Compression

LEAST, HIGHEST = 4, 1
Tables = dict[bytes, dict[int, bytes]]

keys = st.none() | st.sampled_from([b"", b"ab", b"\0\0\0\0", b"ab\0\0\0\1", b"ab\0\0\0\2", b"ab\xff\xff\xff\xff", b"cd\0\0\0\1", b"abcdef"])
values = st.none() | st.sampled_from([b"", b"\0\0", b"\0\0xy", b"\0\1xyz", b"\0\2xy", b"\1\0xy", b"\0\0" + b"z" * 5000])
plain = st.tuples(st.lists(st.tuples(keys, values), max_size=5), st.just("plain"))
special = st.tuples(st.lists(st.tuples(keys, values), min_size=1, max_size=3), st.sampled_from(["transactional", "compressed", "gap"]))


def encoded(batches: list[tuple[list[tuple[bytes | None, bytes | None]], str]]) -> bytes:
    data = b""
    offset = 0
    for pairs, kind in batches:
        offset += 7 if kind == "gap" else 0
        data += encode_batch(
            [(5, key, value, ()) for key, value in pairs],
            base_offset=offset,
            producer_id=9 if kind == "transactional" else -1,
            transactional=kind == "transactional",
            compression=Compression.GZIP if kind == "compressed" else Compression.NONE,
        )
        offset += max(len(pairs), 1)
    return data


def expected(data: bytes, below: int, tables: Tables) -> tuple[Tables, list[tuple[int, bytes | None, bytes | None]], list[int]]:
    """Tables, records left over, base offsets of batches left over."""
    others, left = [], []
    for position, header in iter_headers(data):
        if header.is_transactional or header.compression or header.next_offset > below:
            left.append(header.base_offset)
            continue
        for record in decode_batch(data, position, header):
            key, value = record.key, record.value
            fits = value is not None and 4 <= len(value) <= 4096 and value[0] == 0 and value[1] <= HIGHEST
            if fits and value is not None and key is not None and len(key) >= 6 and key[:-4] in tables:
                tables[key[:-4]][int.from_bytes(key[-4:], "big", signed=True)] = struct.pack(">q", record.offset) + value
                continue
            others.append((record.offset, key, value))
    return tables, others, left


@given(batches=st.lists(plain | special, max_size=8), limit=st.integers(1, 6), below=st.sampled_from([0, 3, 1_000]))
@settings(max_examples=150)
def test_what_has_a_table_is_put_there_and_the_rest_is_told(
    batches: list[tuple[list[tuple[bytes | None, bytes | None]], str]], limit: int, below: int
) -> None:
    data = encoded(batches)
    tables: Tables = {b"ab": {}, b"": {}}
    run = native.codec.KeyedRun(data, below, LEAST, HIGHEST)
    others, left = [], []
    while (ended := run.put(tables, limit)) != native.codec.KEYED_END:
        assert run.count <= limit
        if ended == native.codec.KEYED_OTHER:
            others.append((run.offset, run.key, run.value))
        elif ended == native.codec.KEYED_BATCH:
            header = next(iter(iter_headers(data[run.batch_end :])))[1]
            left.append(header.base_offset)
            run.skip(run.batch_end + header.size)
        else:
            assert ended == native.codec.KEYED_MORE
            assert run.count == limit
    assert (tables, others, left) == expected(data, below, {b"ab": {}, b"": {}})


@given(data=st.data())
@settings(max_examples=150)
def test_damage_ends_it_and_nothing_else(data: st.DataObject) -> None:
    source = bytearray(encoded([([(b"ab\0\0\0\1", b"\0\0xy"), (b"cd\0\0\0\1", None)], "plain")] * 3))
    for _ in range(data.draw(st.integers(1, 3))):
        source[data.draw(st.integers(0, len(source) - 1))] = data.draw(st.integers(0, 255))
    run = native.codec.KeyedRun(bytes(source[: data.draw(st.integers(0, len(source)))]), 1 << 62, LEAST, HIGHEST)
    seen = 0
    while run.put({b"ab": {}}, 2) in (native.codec.KEYED_MORE, native.codec.KEYED_OTHER):
        seen += run.count
        assert seen < len(source)


def test_a_batch_with_other_records_than_it_says_is_malformed() -> None:
    source = bytearray(encoded([([(b"ab\0\0\0\1", b"\0\0xy")] * 2, "plain")]))
    source[60] = 1
    run = native.codec.KeyedRun(bytes(source), 100, LEAST, HIGHEST)
    assert run.put({b"ab": {}}, 10) == native.codec.KEYED_MALFORMED
    source[60] = 3
    run = native.codec.KeyedRun(bytes(source), 100, LEAST, HIGHEST)
    assert run.put({b"ab": {}}, 10) == native.codec.KEYED_MALFORMED


def test_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="versions"):
        native.codec.KeyedRun(b"", 0, 2, 256)
    run = native.codec.KeyedRun(b"", 0, 2, 2)
    assert run.put({}, 1) == native.codec.KEYED_END
    with pytest.raises(ValueError, match="between"):
        run.skip(1)


numbers = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(numbers, st.binary(max_size=40)), max_size=6), st.integers(0, 2**63 - 10))
@settings(max_examples=100)
def test_records_are_numbered_as_they_would_be_put(commits: list[tuple[int, bytes]], offset: int) -> None:
    records = [(b"key" + struct.pack(">i", number), value) for number, value in commits]
    table = {number: struct.pack(">q", offset + index) + value for index, (number, value) in enumerate(commits)}
    assert native.codec.numbered(records, offset) == table
    assert native.codec.total_size(records) == sum(7 + len(value) for _, value in commits)


def test_a_key_without_a_number_is_refused_and_no_value_has_no_size() -> None:
    with pytest.raises(IndexError):
        native.codec.numbered([(b"abc", b"value")], 0)
    assert native.codec.total_size([(b"abc", None), (b"", b"de")]) == 5
