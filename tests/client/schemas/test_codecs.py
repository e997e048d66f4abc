"""Avro, Protobuf and JSON against confluent-kafka's serializers: what one writes the other reads, byte for byte."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.client.schemas import (
    AvroSerializer,
    DecoderSettings,
    JsonSerializer,
    ProtobufSerializer,
    RegistryDecoder,
    Schema,
    SchemaError,
    SchemaReference,
    SchemaRegistry,
    UndecodableValue,
    UnencodableValue,
    UnknownSchema,
    WireFormatError,
    json_text,
)
from odradek.client.schemas.avro import AvroDecoder, AvroSchema
from odradek.client.schemas.wire import write_prefix
from odradek.testing import SchemaRegistryServer
from tests.client.schemas.files import shop
from tests.client.schemas.peers import Peer

USER = {
    "type": "record",
    "name": "User",
    "namespace": "people",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "long"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "scores", "type": {"type": "array", "items": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}
USERS = st.fixed_dictionaries(
    {
        "name": st.text(),
        "age": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "raw": st.binary(max_size=50),
        "tags": st.dictionaries(st.text(), st.integers(-(1 << 31), (1 << 31) - 1), max_size=4),
        "scores": st.lists(st.floats(allow_nan=False), max_size=4),
        "kind": st.sampled_from("AB"),
    }
)
LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
SHOP = shop()
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "state": st.sampled_from(["OPEN", "PAID"]) | st.integers(2, 99),
        "lines": st.lists(st.fixed_dictionaries({"article": st.text()}), max_size=3),
        "raw": st.binary(max_size=20),
        "counts": st.dictionaries(st.text(), st.integers(-9, 9), max_size=3),
    },
    optional={
        "total": st.fixed_dictionaries({"cents": st.integers(0, (1 << 64) - 1), "currency": st.text()}),
        "at": st.datetimes(timezones=st.just(UTC)),
        "note": st.text(),
        "before": st.just({"id": 1, "state": "OPEN", "lines": [], "raw": b"", "counts": {}}),
    },
)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.text() | st.floats(allow_nan=False, allow_infinity=False)
ONCE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def peer(server: SchemaRegistryServer) -> Iterator[Peer]:
    peer = Peer(server.url)
    yield peer
    peer.client.close()


@ONCE
@given(value=USERS)
def test_avro_is_confluents_in_both_directions(registry: SchemaRegistry, peer: Peer, value: dict[str, Any]) -> None:
    ours = AvroSerializer(registry, USER).serialize("users", "value", value, [])
    theirs = peer.write_avro(json.dumps(USER), value, "users")
    assert ours == theirs
    assert RegistryDecoder(registry).decode(theirs) == value == peer.read_avro(ours, "users")


@ONCE
@given(value=ORDERS)
def test_protobuf_is_confluents_in_both_directions(registry: SchemaRegistry, peer: Peer, value: dict[str, Any]) -> None:
    ours = ProtobufSerializer(registry, SHOP["Order"]).serialize("orders", "value", value, [])
    message = peer.read_protobuf(SHOP["Order"], ours, "orders")
    theirs = peer.write_protobuf(message, "orders")
    assert RegistryDecoder(registry).decode(theirs) == value == RegistryDecoder(registry).decode(ours)
    assert len(theirs) == len(ours), "entries of maps have no order"


def test_nested_messages_and_their_indexes(registry: SchemaRegistry, peer: Peer) -> None:
    decoder = RegistryDecoder(registry)
    for name, value, indexes in (("Refund", {"reason": "late"}, b"\x02\x02"), ("Order.Line", {"article": "tea"}, b"\x04\x00\x00")):
        theirs = peer.write_protobuf(SHOP[name](**value), name)
        assert theirs[5 : 5 + len(indexes)] == indexes
        assert decoder.decode(theirs) == value
        assert ProtobufSerializer(registry, SHOP[name]).serialize(name, "value", value, []) == theirs
        named = ProtobufSerializer(registry, f"shop.{name}", use_latest_version=True)
        assert named.serialize(name, "value", value, []) == theirs
    with pytest.raises(WireFormatError, match=r"\[0, 7\] are out of range: message shop.Order has 2 nested messages"):
        decoder.decode(write_prefix(int.from_bytes(theirs[1:5], "big"), (0, 7)))


@ONCE
@given(value=st.dictionaries(st.text(), SCALARS))
def test_json_is_read_in_both_directions(registry: SchemaRegistry, peer: Peer, value: dict[str, Any]) -> None:
    schema = {"title": "Anything", "type": "object"}
    ours = JsonSerializer(registry, schema).serialize("things", "value", value, [])
    theirs = peer.write_json(json.dumps(schema), value, "things")
    assert ours[:5] == theirs[:5]
    assert RegistryDecoder(registry).decode(theirs) == value == peer.read_json(ours, "things")


def test_a_guid_in_a_header_is_confluents(registry: SchemaRegistry, peer: Peer) -> None:
    decoder = RegistryDecoder(registry)
    value = {"name": "x", "age": 1, "raw": b"", "tags": {}, "scores": [], "kind": "A"}
    headers: list[tuple[str, bytes | None]] = [("mine", b"1"), ("__value_schema_id", b"old")]
    ours = AvroSerializer(registry, USER, schema_id_location="header").serialize("users", "value", value, headers)
    theirs, their_headers = peer.write_avro_in_header(json.dumps(USER), value, "users")
    assert ours == theirs
    assert headers == [("mine", b"1"), *their_headers]
    assert decoder.decode(theirs, their_headers) == value
    with pytest.raises(WireFormatError):
        RegistryDecoder(registry, part="key").decode(theirs, their_headers)
    more: list[tuple[str, bytes | None]] = []
    data = ProtobufSerializer(registry, SHOP["Order.Line"], schema_id_location="header").serialize("l", "value", {"article": "tea"}, more)
    assert decoder.decode(data, more) == {"article": "tea"}


def test_logical_types_become_pythons_and_json_text() -> None:
    fields = {
        "day": ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), '"2024-02-29"'),
        "at": ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2024, 1, 1, 1, tzinfo=UTC), '"2024-01-01T01:00:00Z"'),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.50"), '"12.50"'),
        "id": ({"type": "string", "logicalType": "uuid"}, uuid4(), None),
        "raw": ("bytes", b"\xff", '"/w=="'),
        "inf": ("double", float("-inf"), '"-Infinity"'),
        "big": ("long", 1 << 62, str(1 << 62)),
    }
    schema = {"type": "record", "name": "All", "fields": [{"name": name, "type": each[0]} for name, each in fields.items()]}
    value = {name: each[1] for name, each in fields.items()}
    parsed = AvroSchema(None, Schema(json.dumps(schema)))
    read = AvroDecoder(parsed).decode(parsed.encode(value), 0)
    assert read == value
    for name, (_, one, text) in fields.items():
        assert json_text(one) == (text or f'"{value["id"]}"'), name
    assert json_text({"a": [timedelta(seconds=-1, microseconds=-500000)]}) == '{"a": ["-1.5s"]}'


def test_a_readers_schema_projects_and_fills_in(registry: SchemaRegistry) -> None:
    data = AvroSerializer(registry, USER).serialize(
        "users", "value", {"name": "x", "age": 1, "raw": b"", "tags": {}, "scores": [], "kind": "A"}, []
    )
    newer = {**USER, "fields": [USER["fields"][0], {"name": "city", "type": "string", "default": "?"}]}
    assert RegistryDecoder(registry, reader_schema=json.dumps(newer)).decode(data) == {"name": "x", "city": "?"}
    other = {**USER, "fields": [{"name": "name", "type": "int"}]}
    with pytest.raises(UndecodableValue, match="do not agree"):
        RegistryDecoder(registry, reader_schema=json.dumps(other)).decode(data)


def test_references_are_read_first_and_circles_refused(registry: SchemaRegistry, server: SchemaRegistryServer) -> None:
    server.register("kind", json.dumps({"type": "enum", "name": "shop.Kind", "symbols": ["A", "B"]}))
    part = {"type": "record", "name": "shop.Part", "fields": [{"name": "kind", "type": "shop.Kind"}]}
    server.register("part", json.dumps(part), references=[{"name": "shop.Kind", "subject": "kind", "version": 1}])
    both = (SchemaReference("shop.Part", "part", 1), SchemaReference("shop.Kind", "kind", 1))
    either = Schema('["shop.Part", "shop.Kind", "null"]', references=both)
    for value in ({"kind": "B"}, "A"):
        data = AvroSerializer(registry, either).serialize("either", "value", value, [])
        assert RegistryDecoder(registry).decode(data) == value
    with pytest.raises(SchemaError, match="refers to part: a schema registry is needed"):
        AvroSchema(None, either)

    class Circle:
        def version(self, subject: str, version: int) -> Any:
            from odradek.client.schemas import RegisteredSchema

            number = int(subject)
            following = 0 if number == 3 and version == 1 else number + 1
            return RegisteredSchema(1, Schema("{}", references=(SchemaReference(str(number), str(following), version),)), subject, version)

    from odradek.client.schemas.references import resolved

    with pytest.raises(SchemaError, match="lead back to it"):
        resolved(Circle(), Schema("{}", references=(SchemaReference("x", "0", 1),)))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="more than 32"):
        resolved(Circle(), Schema("{}", references=(SchemaReference("x", "0", 2),)))  # type: ignore[arg-type]


def avro(schema: Any) -> AvroDecoder:
    return AvroDecoder(AvroSchema(None, Schema(json.dumps(schema))))


@pytest.mark.parametrize(
    ("schema", "data", "said"),
    [
        (LIST, b"\x02" * 100_000 + b"\x00", "more than 200 deep"),
        ({"type": "array", "items": LIST}, b"\x02" * 5000, "more than 200 deep"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", "more than 100000 items of zero bytes"),
        ("string", b"\xfe\xff\xff\xff\x0fab", "end within"),
        ("string", b"\x02\xff", "utf-8"),
        (["null", "int"], b"\x08", "malformed value"),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, b"\x10", "malformed value"),
        ("int", b"\x02\x02", "1 bytes remain"),
        ("long", b"\xff" * 40, "."),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", "malformed value"),
        (LIST, b"\x04", "but the value has branch 2"),
        (LIST, b"", "truncated"),
    ],
)
def test_hostile_avro_is_refused(schema: Any, data: bytes, said: str) -> None:
    with pytest.raises(UndecodableValue, match=said):
        avro(schema).decode(data, 0)


def test_a_decoder_is_shared_by_threads() -> None:
    decoder = avro(LIST)
    values = {depth: b"\x02" * depth + b"\x00" for depth in (1, 90)}
    wrong: list[Exception] = []

    def read(depth: int) -> None:
        try:
            for _ in range(300):
                decoder.decode(values[depth], 0)
        except Exception as error:
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read, args=(depth,)) for depth in (1, 90) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_types_that_are_used_again_and_again_are_looked_at_once() -> None:
    inner: Any = "int"
    for level in range(40):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level - 1}" if level else "int"}]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    assert AvroSchema(None, Schema(json.dumps(inner))).guard() is None


def test_deep_values_that_are_allowed_are_read() -> None:
    assert json_text(avro(LIST).decode(b"\x02" * 90 + b"\x00", 0)).count("next") == 91
    nested: dict[str, Any] = {"next": None}
    nested["next"] = nested
    with pytest.raises(UnencodableValue, match="contains itself"):
        AvroSchema(None, Schema(json.dumps(LIST))).encode(nested)


@ONCE
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_typed_error(data: bytes) -> None:
    for schema in (USER, LIST, {"type": "array", "items": "null"}):
        decoder = avro(schema)
        try:
            decoder.decode(data, 0)
        except UndecodableValue:
            continue


@ONCE
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_typed_error(registry: SchemaRegistry, data: bytes) -> None:
    head = ProtobufSerializer(registry, SHOP["Order"]).serialize("orders", "value", {}, [])
    try:
        RegistryDecoder(registry).decode(head + data)
    except UndecodableValue:
        return


def test_timestamps_outside_of_the_years_there_are(registry: SchemaRegistry) -> None:
    serializer = ProtobufSerializer(registry, SHOP["Order"])
    for wrong in ({"seconds": 1 << 60}, {"nanos": -1}):
        with pytest.raises(UndecodableValue, match="Timestamp"):
            RegistryDecoder(registry).decode(serializer.serialize("orders", "value", {"at": wrong}, []))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": "x"}, "shop.Order.id"),
        ({"state": "GONE"}, "has no GONE"),
        ({"total": 3}, "shop.Order.total"),
        ({"nope": 1}, "the field does not exist"),
        (3, "must be a dict, not int"),
    ],
)
def test_what_does_not_fit_a_message_is_named(registry: SchemaRegistry, value: Any, said: str) -> None:
    with pytest.raises(UnencodableValue, match=said):
        ProtobufSerializer(registry, SHOP["Order"]).serialize("orders", "value", value, [])


def test_what_does_not_fit_a_record_is_named(registry: SchemaRegistry) -> None:
    with pytest.raises(UnencodableValue, match=r"people\.User\.name"):
        AvroSerializer(registry, USER).serialize("users", "value", {"name": 1, "raw": b"", "tags": {}, "scores": [], "kind": "A"}, [])
    with pytest.raises(UnencodableValue, match="cannot be written as JSON"):
        JsonSerializer(registry, {}).serialize("j", "value", float("nan"), [])


def test_a_column_asks_once_and_tells_where_it_fails(registry: SchemaRegistry, server: SchemaRegistryServer) -> None:
    serializer = JsonSerializer(registry, {"title": "N"})
    column: list[bytes | None] = [serializer.serialize("n", "value", number, []) for number in range(100)]
    server.requests.clear()
    decoder = DecoderSettings("registry", server.url).build()
    assert decoder.decode_many([*column, None]) == [*range(100), None]
    assert decoder.decode_many([bytearray(column[5] or b"")]) == [5], "Spark hands out such"
    assert DecoderSettings("json").build().decode_many([bytearray(b"5")]) == [5]
    assert [request.path for request in server.requests] == ["/schemas/ids/1"]
    column[3], column[7] = b"", b"\x00\x00\x00\x00\x63x"
    errors: dict[int, Exception] = {}

    def told(index: int, error: Exception) -> Any:
        errors[index] = error
        return "?"

    assert decoder.decode_many(column[:9], told) == [0, 1, 2, "?", 4, 5, 6, "?", 8]
    assert {index: type(error) for index, error in errors.items()} == {3: WireFormatError, 7: UnknownSchema}
    with pytest.raises(WireFormatError):
        decoder.decode_many(column)


def test_settings_travel_and_are_checked(server: SchemaRegistryServer, tmp_path: Any) -> None:
    travelled = pickle.loads(pickle.dumps(DecoderSettings("json")))
    assert travelled.build().decode_many([b"[1]", None]) == [[1], None]
    (tmp_path / "u.avsc").write_text(json.dumps(USER))
    bare = DecoderSettings("avro", schema=f"@{tmp_path}/u.avsc").build()
    value = {"name": "x", "age": None, "raw": b"", "tags": {}, "scores": [], "kind": "A"}
    assert bare.decode(AvroSchema(None, Schema(json.dumps(USER))).encode(value)) == value
    from odradek.client.schemas.protobuf import schema_of

    refund = DecoderSettings("protobuf", schema=schema_of(SHOP["Money"].DESCRIPTOR).text, message="Money").build()
    assert refund.decode(SHOP["Money"](cents=3).SerializeToString()) == {"cents": 3, "currency": ""}
    for wrong, said in (
        (DecoderSettings("xml"), "unknown kind of decoder"),
        (DecoderSettings("avro"), "give a schema registry, or a folder of schemas"),
        (DecoderSettings("json", message="M"), "a message can be named only for"),
        (DecoderSettings("json", schema="{}"), "a schema can be given only for bare values"),
        (DecoderSettings("json", reader_schema="{}"), "only for Avro, not for json"),
        (DecoderSettings("json", registry_settings=(("max.retries", "1"),)), "without a schema registry"),
        (DecoderSettings("registry", str(tmp_path / "gone")), "is not a folder"),
        (DecoderSettings("avro", schema="@/nowhere"), "No such file"),
    ):
        with pytest.raises(ConfigError, match=said):
            wrong.build()
    with SchemaRegistry(server.url) as registry:
        data = JsonSerializer(registry, {}).serialize("j", "value", 1, [])
    with pytest.raises(SchemaError, match="has the type JSON instead of AVRO"):
        DecoderSettings("avro", server.url).build().decode(data)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (Schema("{"), "not JSON"),
        (Schema('{"type": "wrong"}'), "malformed Avro schema"),
        (Schema("[" * 5000), "not JSON"),
        (Schema("{}", "JSON"), "type JSON"),
    ],
)
def test_what_is_no_avro_schema_is_told(schema: Schema, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        AvroSchema(None, schema)


def test_protobuf_as_text_is_told(registry: SchemaRegistry, server: SchemaRegistryServer) -> None:
    number = server.register("p", 'syntax = "proto3"; message M {}', "PROTOBUF")
    with pytest.raises(SchemaError, match=r"is text \(.proto\) instead of a descriptor"):
        RegistryDecoder(registry).decode(write_prefix(number, (0,)))
