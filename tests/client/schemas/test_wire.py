"""The wire format, against what confluent-kafka writes and reads."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.schemas.errors import WireFormatError
from odradek.client.schemas.wire import MAX_INDEXES, header_name, read_indexes, read_prefix, write_indexes, write_prefix
from tests.client.schemas.peers import SchemaId

IDS = st.integers(0, 0xFFFFFFFF)
INDEXES = st.lists(st.integers(0, 0x7FFFFFFF), min_size=1, max_size=8)


@given(IDS, INDEXES)
def test_an_id_and_indexes_are_written_as_confluents(schema_id: int, indexes: list[int]) -> None:
    theirs = SchemaId("PROTOBUF", schema_id, None, indexes).id_to_bytes()
    assert write_prefix(schema_id, indexes) == theirs
    framed = read_prefix(theirs)
    assert framed.schema == schema_id
    assert read_indexes(theirs + b"rest", framed.end) == (tuple(indexes), len(theirs))


@given(st.uuids(), INDEXES)
def test_a_guid_and_indexes_are_written_as_confluents(guid: UUID, indexes: list[int]) -> None:
    theirs = SchemaId("PROTOBUF", None, str(guid), indexes).guid_to_bytes()
    assert write_prefix(guid, indexes) == theirs
    read = SchemaId("PROTOBUF")
    assert read.from_bytes(io.BytesIO(write_prefix(guid, indexes) + b"x")).read() == b"x"
    assert (read.guid, read.message_indexes) == (guid, indexes)
    assert read_prefix(theirs).schema == guid


def test_the_first_message_has_a_form_of_its_own() -> None:
    assert write_indexes([0]) == b"\x00"
    assert read_indexes(b"\x00x", 0) == ((0,), 1)
    assert read_indexes(b"\x02\x00x", 0) == ((0,), 2), "the long form is read too"
    assert header_name("key") == "__key_schema_id"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"\x00\x00\x01", r"too short for the id of a schema, which needs 5 bytes: 3 bytes, 00 00 01"),
        (b"\x01" + bytes(15), "too short for the GUID of a schema, which needs 17 bytes: 16 bytes"),
        (b'{"a": 1}', r"the first byte is 123 instead of 0: 8 bytes, '\{\"a\": 1\}'; this looks like plain JSON"),
        (b"Obj\x01abc", "looks like an Avro file"),
        (b"hello", "'hello'; this looks like text"),
        (b"\xff\xfe\x00", "the first byte is 255 instead of 0: 3 bytes, ff fe 00"),
    ],
)
def test_what_names_no_schema_is_told_by_its_looks(data: bytes, said: str) -> None:
    with pytest.raises(WireFormatError, match=said) as caught:
        read_prefix(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x02", b"\x04\x00", b"\x01", b"\xff\xff\xff\xff\x7f", b"\x02\x01", b"\x80" * 9])
def test_indexes_that_are_cut_off_negative_or_too_many_are_refused(data: bytes) -> None:
    with pytest.raises(WireFormatError):
        read_indexes(data, 0)


def test_indexes_are_bounded_on_both_ways() -> None:
    deepest = [1] * MAX_INDEXES
    assert read_indexes(write_indexes(deepest), 0).indexes == tuple(deepest)
    for wrong in ([], [1] * (MAX_INDEXES + 1), [-1], [1 << 31]):
        with pytest.raises(ValueError, match="do not name a message"):
            write_indexes(wrong)
    with pytest.raises(WireFormatError, match="has 101 message indexes"):
        read_indexes(b"\xca\x01" + b"\x02" * 101, 0)
    with pytest.raises(ValueError, match="32 bits"):
        write_prefix(1 << 32)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        framed = read_prefix(data)
        read_indexes(data, framed.end)
    except WireFormatError:
        return
