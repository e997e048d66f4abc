"""Avro without Spark: types, values of chance, schema resolution, and bytes that are none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from odradek.client.schemas import Schema, SchemaError
from odradek.client.schemas.avro_guard import MAX_EMPTY_ITEMS
from odradek.spark.functions.arrow_rows import nullable
from odradek.spark.functions.avro_plan import plan
from odradek.spark.functions.avro_rows import BareAvro, normal
from odradek.spark.functions.avro_types import decimal_of, spark_type
from odradek.spark.functions.reading import ColumnReader, Outcome
from tests.spark.functions.avro_values import Avro, encoded, in_arrow


def schema(given: Any) -> Schema:
    return Schema(json.dumps(given))


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def read(writer: Any, data: list[bytes | None], reader: Any = None) -> Outcome:
    mine = schema(writer if reader is None else reader)
    rows = BareAvro(schema(writer), mine)
    outcome = ColumnReader(rows, nullable(spark_type(normal(mine)).type)).read(data)
    outcome.values.validate(full=True)
    return outcome


def one(writer: Any, value: Any, reader: Any = None) -> Any:
    outcome = read(writer, [encoded(writer, value)], reader)
    assert outcome.errors == [None]
    return outcome.values.to_pylist()[0]


def error(writer: Any, data: bytes, reader: Any = None) -> str:
    outcome = read(writer, [data], reader)
    assert outcome.values.to_pylist() == [None]
    assert outcome.errors[0] is not None
    return outcome.errors[0]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
NODE = record(field("value", "int"), field("next", ["null", "Node"]), name="Node")


@pytest.mark.parametrize(
    ("given", "ddl"),
    [
        ("null", "void"),
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "long", "logicalType": "time-micros"}, "bigint"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "bigint"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "string", "logicalType": "date"}, "string"),
        (DECIMAL, "decimal(4,2)"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}, "decimal(4,0)"),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": "int"}, "array<int>"),
        ({"type": "map", "values": ["null", "int"]}, "map<string,int>"),
        (["null", "int"], "int"),
        (["int"], "int"),
        (["null"], "void"),
        (["int", "long"], "bigint"),
        (["double", "null", "float"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        (["int", "long", "float"], "struct<member0:int,member1:bigint,member2:float>"),
        (record(field("a", "int"), field("b", record(field("c", "string"), name="S"))), "struct<a:int,b:struct<c:string>>"),
        (record(field("a", record(name="E")), field("b", "E")), "struct<a:struct<>,b:struct<>>"),
    ],
)
def test_types(given: Any, ddl: str) -> None:
    assert spark_type(normal(schema(given))).type.simpleString() == ddl


@pytest.mark.parametrize("more", [{"precision": 2, "scale": 4}, {"precision": 0}, {}, {"precision": 4, "scale": -1}])
def test_decimals_that_contradict_themselves_are_overlooked(more: dict[str, int]) -> None:
    assert decimal_of({"type": "bytes", "logicalType": "decimal", **more}) is None
    assert decimal_of({"type": "fixed", "size": 2, "logicalType": "decimal", "precision": 5}) is None
    assert decimal_of({"type": "fixed", "size": 2, "logicalType": "decimal", "precision": 4}) == (4, 0)


def test_what_may_be_null() -> None:
    found = spark_type(
        normal(schema(record(field("a", "int"), field("b", ["null", "int"]), field("c", {"type": "array", "items": "int"}))))
    )
    assert [each.nullable for each in found.type.fields] == [False, True, False]  # type: ignore[attr-defined]
    assert not found.type.fields[2].dataType.containsNull  # type: ignore[attr-defined]
    loose = nullable(found.type)
    assert all(each.nullable for each in loose.fields)  # type: ignore[attr-defined]
    assert loose.fields[2].dataType.containsNull  # type: ignore[attr-defined]


def test_types_that_spark_does_not_have() -> None:
    with pytest.raises(SchemaError, match="Node contains itself"):
        spark_type(normal(schema(NODE)))
    with pytest.raises(SchemaError, match="a decimal of 39 digits is too long"):
        spark_type(normal(schema({**DECIMAL, "precision": 39})))
    deep: Any = "int"
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="more than 50 levels deep"):
        spark_type(normal(schema(deep)))
    wide: Any = record(field("x", "int"), name="T0")
    for level in range(1, 15):
        wide = record(field("a", wide), field("b", f"T{level - 1}"), name=f"T{level}")
    with pytest.raises(SchemaError, match="more than 10000 fields"):
        spark_type(normal(schema(wide)))


@pytest.mark.parametrize("seed", range(150))
def test_values_of_chance_and_spoiled_ones(seed: int) -> None:
    chance = Avro(seed)
    given = chance.schema()
    values = [chance.value(given) for _ in range(6)]
    data = [encoded(given, value) for value in values]
    outcome = read(given, [*data, None])
    assert outcome.errors == [None] * 7
    assert outcome.values.to_pylist() == [*(in_arrow(given, value) for value in values), None]
    spoiled = read(given, [chance.spoiled(each) for each in data] + [chance.random.randbytes(30)])
    # Never an error of Python's own, and one line each.
    assert not [each for each in spoiled.errors if each is not None and ("Error:" in each or "\n" in each)]


def test_logical_types() -> None:
    given = record(
        field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
        field("micros", {"type": "long", "logicalType": "timestamp-micros"}),
        field("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
        field("day", {"type": "int", "logicalType": "date"}),
        field("price", DECIMAL),
        field("time", {"type": "int", "logicalType": "time-millis"}),
        field("id", {"type": "string", "logicalType": "uuid"}),
    )
    at = datetime(2024, 5, 6, 7, 8, 9, 123000, UTC)
    uuid = "9f1a9a9e-52bb-4a3e-9a5d-0a8c6f3d2b1e"
    value = {"millis": at, "micros": at, "local": at.replace(tzinfo=None), "day": date(2024, 5, 6), "price": Decimal("-1.50")}
    found = one(given, {**value, "time": 1234, "id": uuid})
    assert found == {**value, "time": 1234, "id": uuid}


def test_branches_of_unions_that_look_alike_are_told_apart() -> None:
    given = ["int", "long", "double"]
    outcome = read(given, [b"\x00\x02", b"\x02\x02", b"\x04" + bytes(8)])
    assert outcome.values.to_pylist() == [
        {"member0": 1, "member1": None, "member2": None},
        {"member0": None, "member1": 1, "member2": None},
        {"member0": None, "member1": None, "member2": 0.0},
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "found"),
    [
        ("int", "double", 3, 3.0),
        ("long", "float", 3, 3.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", b"x", "x"),
        ("int", ["null", "long"], 3, 3),
        (["null", "int"], "int", 3, 3),
        (["int", "string"], ["string", "null", "int"], 3, {"member0": None, "member1": 3}),
        ("int", ["string", "long"], 3, {"member0": None, "member1": 3}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "long"]}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"a": 1}, [("a", 1.0)]),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["B", "C"], "default": "C"},
            "A",
            "C",
        ),
        ({"type": "int"}, {"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ],
)
def test_resolution(writer: Any, reader: Any, value: Any, found: Any) -> None:
    assert one(writer, value, reader) == found


def test_fields_are_dropped_renamed_reordered_and_filled_up() -> None:
    inner = record(field("x", "int"), field("gone", {"type": "map", "values": ["null", "string"]}), name="Inner")
    writer = record(field("a", "int"), field("chain", NODE), field("old", "string"), field("in", ["null", inner]), field("z", "float"))
    reader = record(
        field("z", "double"),
        field("new", "string", aliases=["old"]),
        field("in", ["null", record(field("x", "long"), field("y", "bytes", default="\u00ff"), name="Inner")]),
        field("day", {"type": "int", "logicalType": "date"}, default=1),
        field("list", {"type": "array", "items": "int"}, default=[1, 2]),
        field("table", {"type": "map", "values": "int"}, default={"k": 1}),
        field("maybe", ["null", "string"], default=None),
        field("sub", record(field("p", "int"), field("q", ["null", DECIMAL], default=None), name="Sub"), default={"p": 7}),
        field("either", ["int", "string"], default=5),
        field("none", ["null", record(field("p", "int"), name="None_")], default=None),
    )
    chain = {"value": 1, "next": {"value": 2, "next": None}}
    value = {"a": 1, "chain": chain, "old": "o", "in": {"x": 3, "gone": {"k": "v", "n": None}}, "z": 0.5}
    assert one(writer, value, reader) == {
        "z": 0.5,
        "new": "o",
        "in": {"x": 3, "y": b"\xff"},
        "day": date(1970, 1, 2),
        "list": [1, 2],
        "table": [("k", 1)],
        "maybe": None,
        "sub": {"p": 7, "q": None},
        "either": {"member0": 5, "member1": None},
        "none": None,
    }
    assert one(writer, {**value, "in": None}, reader)["in"] is None


def test_schemas_that_cannot_agree() -> None:
    with pytest.raises(SchemaError, match="the field b of the reader's schema has no default"):
        plan(normal(schema(record(field("a", "int")))), normal(schema(record(field("b", "int")))))


def test_values_that_cannot_be_resolved_are_errors_of_their_own() -> None:
    assert "type string does not fit the reader's type int" in error("string", b"\x02a", "int")
    assert "the reader's union has no branch for" in error("string", b"\x02a", ["null", "int"])
    assert "the symbol A, and has no default" in error(
        {"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x00", {"type": "enum", "name": "E", "symbols": ["B"]}
    )
    found = read(["null", "int"], [b"\x00", b"\x02\x02"], "int")
    assert found.values.to_pylist() == [None, 1]
    assert found.errors[0] is not None
    assert found.errors[1] is None


@pytest.mark.parametrize(
    ("given", "data", "why"),
    [
        ("int", b"", "truncated after 0 bytes"),
        ("int", b"\x02\x02", "1 of 2 bytes remain after a value of the Avro schema"),
        ("int", b"\x80\x80\x80\x80\x10", "has more than 32 bits"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\x80" * 20, "more than 64 bits"),
        ("double", b"1234567", "truncated after 7 bytes"),
        ("boolean", b"", "truncated"),
        ("string", b"\x01a", "a length is -1"),
        ("string", b"\x08abc", "it needs 4 more bytes, there are 3"),
        ("string", b"\x02\xff", "utf8"),
        (["null", "int"], b"\x04", "the union has 2 branches, but the value has branch 2"),
        (["null", "int"], b"\x01", "the union has 2 branches, but the value has branch -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "the enum has 1 symbols, but the value has symbol -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "the enum has 1 symbols, but the value has symbol 1"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f", "there are fewer than"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f", "too many items of zero bytes"),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f", "there are fewer than"),
        (DECIMAL, b"\x04\x7f\xff", "more than 4 digits"),
        (DECIMAL, b"\x00", "a decimal has no bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01", "beyond 64 bits of microseconds"),
    ],
)
def test_hostile_bytes(given: Any, data: bytes, why: str) -> None:
    assert why in error(given, data)


def test_items_without_bytes_are_bounded_and_read() -> None:
    given = {"type": "array", "items": "null"}
    assert read(given, [b"\x06\x00"]).values.to_pylist() == [[None] * 3]
    count = MAX_EMPTY_ITEMS // 2 + 1
    block = encoded("long", count)
    assert "too many items" in error(given, block + block + b"\x00")


def test_what_a_reader_passes_over_is_bounded_too() -> None:
    writer = record(field("chain", NODE), field("a", "int"))
    reader = record(field("a", "int"))
    deep = b"\x02\x02" * 5000
    assert "nests types more than 200 deep" in error(writer, deep, reader)


def test_one_bad_text_does_not_take_its_neighbours_along() -> None:
    given = record(field("a", "string"), field("b", ["null", record(field("c", "string"), name="S")]))
    good = encoded(given, {"a": "x", "b": {"c": "y"}})
    found = read(given, [good, good.replace(b"y", b"\xff"), None, good])
    assert found.values.to_pylist() == [{"a": "x", "b": {"c": "y"}}, None, None, {"a": "x", "b": {"c": "y"}}]
    assert [each is None for each in found.errors] == [True, False, True, True]


def test_names_of_a_schema_are_no_source_text() -> None:
    given = record(field("f", {"type": "enum", "name": "E", "symbols": ["A"]}, doc="\"'\n"), doc="'''")
    given["fields"][0]["default"] = "A"
    assert one(record(field("other", "int")), {"other": 1}, given) == {"f": "A"}


def test_arrays_may_nest_deeper_than_loops_of_python() -> None:
    given: Any = "int"
    value: Any = 1
    for _ in range(40):
        given, value = {"type": "array", "items": given}, [value]
    assert one(given, value) == value
