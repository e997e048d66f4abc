"""Protobuf without Spark: types, values, options, and bytes that are none."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from odradek.base.errors import ConfigError
from odradek.client.schemas import Schema, SchemaError, UnknownSchema
from odradek.client.schemas.protobuf import ProtobufSchema, encode_message
from odradek.client.schemas.types import PROTOBUF
from odradek.client.schemas.wire import write_prefix
from odradek.spark.functions.protobuf_rows import BareProtobuf, Message, NamedProtobuf
from odradek.spark.functions.protobuf_types import Options, protobuf_options
from odradek.spark.functions.reading import ColumnReader
from tests.client.schemas.files import BOOL, BYTES, DOUBLE, ENUM, INT64, MESSAGE, STRING, UINT64, field

UINT32 = 13
PLAIN = Options()


def everything(*, newer: bool = False) -> Schema:
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="all", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{each}.proto" for each in ("timestamp", "duration", "struct", "wrappers"))
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("OPEN", "PAID")):
        state.value.add(name=name, number=number)
    message = file.message_type.add(name="All")
    message.oneof_decl.add(name="choice")
    field(message, "id", 1, INT64)
    field(message, "big", 2, UINT64)
    field(message, "small", 3, UINT32)
    field(message, "state", 4, ENUM, ".all.State")
    field(message, "at", 5, MESSAGE, ".google.protobuf.Timestamp")
    field(message, "took", 6, MESSAGE, ".google.protobuf.Duration")
    field(message, "free", 7, MESSAGE, ".google.protobuf.Struct")
    field(message, "wrapped", 8, MESSAGE, ".google.protobuf.UInt32Value")
    field(message, "lines", 9, MESSAGE, ".all.All.Line", repeated=True)
    field(message, "counts", 10, MESSAGE, ".all.All.CountsEntry", repeated=True)
    field(message, "raw", 11, BYTES)
    field(message, "note", 12, STRING, optional=True)
    field(message, "tags", 13, STRING, repeated=True)
    field(message, "nothing", 14, MESSAGE, ".all.Empty")
    field(message, "either", 15, BOOL)
    field(message, "other", 16, DOUBLE)
    for each in message.field:
        if each.name in ("either", "other"):
            each.oneof_index = 0
    if newer:
        field(message, "added", 17, STRING)
    line = message.nested_type.add(name="Line")
    field(line, "article", 1, STRING)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, STRING)
    field(entry, "value", 2, INT64)
    file.message_type.add(name="Empty")
    node = file.message_type.add(name="Node")
    field(node, "value", 1, INT64)
    field(node, "next", 2, MESSAGE, ".all.Node")
    return Schema(b64encode(file.SerializeToString()).decode(), PROTOBUF)


VALUE: dict[str, Any] = {
    "id": -1,
    "big": 2**64 - 1,
    "small": 2**32 - 1,
    "state": "PAID",
    "at": datetime(2024, 5, 6, 7, 8, 9, 10, UTC),
    "took": timedelta(seconds=-1, microseconds=-5),
    "free": {"a": [1.5, None]},
    "wrapped": 5,
    "lines": [{"article": "tea"}, {}],
    "counts": {"a": 1},
    "raw": b"\xff",
    "note": "",
    "tags": ["x"],
    "other": 0.0,
}


def encoded(value: dict[str, Any], name: str = "All", schema: Schema | None = None) -> bytes:
    file = ProtobufSchema(None, schema or everything())
    return encode_message(file, file.named(name), value)


def read(data: list[bytes | None], options: Options = PLAIN, name: str = "All") -> Any:
    file = ProtobufSchema(None, everything())
    outcome = ColumnReader(BareProtobuf(file, name, options), Message(file, name, options).type).read(data)
    outcome.values.validate(full=True)
    return outcome


def type_of(options: Options = PLAIN, name: str | None = "All") -> str:
    return Message(ProtobufSchema(None, everything()), name, options).type.simpleString()


def test_types() -> None:
    assert type_of() == (
        "struct<id:bigint,big:bigint,small:int,state:string,at:timestamp,took:interval day to second,free:string,wrapped:struct<value:int>,"
        "lines:array<struct<article:string>>,counts:map<string,bigint>,raw:binary,note:string,tags:array<string>,either:boolean,other:double>"
    )
    assert type_of(name=None) == type_of()
    options = protobuf_options({"enums.as.ints": "true", "upcast.unsigned.ints": True, "unwrap.primitive.wrapper.types": "TRUE"})
    found = type_of(options)
    assert "big:decimal(20,0),small:bigint,state:int" in found
    assert "wrapped:bigint" in found


def test_messages_that_contain_themselves() -> None:
    with pytest.raises(SchemaError, match=r"all\.Node contains itself"):
        type_of(name="Node")
    assert type_of(protobuf_options({"recursive.fields.max.depth": 1}), "Node") == "struct<value:bigint>"
    assert type_of(protobuf_options({"recursive.fields.max.depth": "2"}), "Node") == "struct<value:bigint,next:struct<value:bigint>>"
    with pytest.raises(SchemaError, match="has no fields that can be columns"):
        type_of(name="Empty")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"mode": "x"}, "mode is not an option of from_protobuf; the options are emit.default.values"),
        ({"enums_as_ints": "true"}, "enums_as_ints is not an option"),
        ({"enums.as.ints": "yes"}, "enums.as.ints must be true or false, not yes"),
        ({"recursive.fields.max.depth": "11"}, "must be a number of at most 10"),
    ],
)
def test_options_that_are_none(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        protobuf_options(given)


def test_values() -> None:
    found = read([encoded(VALUE), None, b""])
    assert found.errors == [None] * 3
    assert found.values.to_pylist() == [
        {
            **VALUE,
            "big": -1,
            "small": -1,
            "free": '{"a": [1.5, null]}',
            "wrapped": {"value": 5},
            "lines": [{"article": "tea"}, {"article": None}],
            "counts": [("a", 1)],
            "either": None,
        },
        None,
        {**dict.fromkeys([*VALUE, "either"]), "lines": [], "counts": [], "tags": []},
    ]


def test_values_with_options() -> None:
    options = Options(True, True, True, True)
    first, second = read([encoded(VALUE), b""], options).values.to_pylist()
    assert (int(first["big"]), first["small"], first["state"], first["wrapped"]) == (2**64 - 1, 2**32 - 1, 1, 5)
    assert first["lines"] == [{"article": "tea"}, {"article": ""}]
    assert (second["id"], second["state"], second["raw"], second["note"], second["other"], second["at"]) == (0, 0, b"", None, None, None)


def test_an_enum_without_a_name_is_shown_by_its_number() -> None:
    assert read([b"\x20\x07"]).values.to_pylist()[0]["state"] == "UNKNOWN_ENUM_VALUE_State_7"


@pytest.mark.parametrize("data", [b"\xff", b"\x2a\xff\x01", b"\x62\x01\xff", b"\x0b", encoded(VALUE)[:-3]])
def test_hostile_bytes(data: bytes) -> None:
    found = read([data, encoded(VALUE)])
    assert "malformed message all.All: " in str(found.errors[0])
    assert found.values.to_pylist()[0] is None
    assert found.errors[1] is None


def test_a_timestamp_beyond_all_years_is_an_error_of_its_own() -> None:
    far = b"\x2a\x0a\x08" + b"\xff" * 8 + b"\x7f"
    found = read([far, encoded(VALUE)])
    assert found.errors[0] is not None
    assert found.values.to_pylist()[1]["id"] == -1


def test_a_message_nested_too_deep_is_no_message() -> None:
    data = b""
    for _ in range(200):
        size = len(data)
        data = b"\x12" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
    assert "malformed message" in str(read([data], Options(recursive_fields_max_depth=2), "Node").errors[0])


class _Source:
    """Schemas by their ids."""

    def __init__(self, *schemas: Schema) -> None:
        self._schemas = schemas
        self.asked = 0

    def schema(self, schema_id: int) -> Schema:
        self.asked += 1
        if schema_id >= len(self._schemas):
            raise UnknownSchema(f"there is no {schema_id}")
        return self._schemas[schema_id]


def test_records_of_other_schemas_go_by_numbers_of_fields_and_those_of_other_messages_are_errors() -> None:
    newer = everything(newer=True)
    source: Any = _Source(everything(), newer, Schema('"string"'))
    file = ProtobufSchema(None, everything())
    reader = ColumnReader(NamedProtobuf(source, file, "all.All", Options()), Message(file, "All", Options()).type)
    late = write_prefix(1, (0,)) + encoded({"id": 7, "added": "x"}, schema=newer)
    records = [
        write_prefix(0, (0,)) + encoded({"id": 5}),
        late,
        write_prefix(0, (2,)) + b"\x08\x01",
        write_prefix(2, (0,)),
        write_prefix(9, (0,)),
        b"\x08\x01",
    ]
    found = reader.read(records)
    assert [each and each["id"] for each in found.values.to_pylist()] == [5, 7, None, None, None, None]
    assert [each and each[:40] for each in found.errors] == [
        None,
        None,
        "the value is a message all.Node, but the",
        "schema 2 has the type AVRO instead of PR",
        "there is no 9",
        "the value does not name a schema: the fi",
    ]
    asked = source.asked
    reader.read(records[:3] * 100)
    assert source.asked == asked
