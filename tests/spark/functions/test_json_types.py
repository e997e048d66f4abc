"""The Spark types of JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.client.schemas import SchemaError
from odradek.spark.functions.json_columns import type_text
from odradek.spark.functions.json_types import json_schema_type


def ddl(schema: Any, **referred: Any) -> str:
    return json_schema_type(json.dumps(schema), {name: json.dumps(each) for name, each in referred.items()}).simpleString()


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


INT, TEXT = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (TEXT, "string"),
        (INT, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "string"),
        (True, "string"),
        ({}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": ["integer", "string"]}, "string"),
        ({"type": "array"}, "array<string>"),
        ({"type": "array", "items": INT}, "array<bigint>"),
        ({"type": "array", "items": [INT, {"type": "number"}]}, "array<double>"),
        ({"type": "array", "prefixItems": [INT, TEXT]}, "array<string>"),
        (obj(a=INT, b=obj(c=TEXT)), "struct<a:bigint,b:struct<c:string>>"),
        ({"properties": {"a": INT}}, "struct<a:bigint>"),
        ({"type": "object"}, "map<string,string>"),
        ({"type": "object", "additionalProperties": False}, "map<string,string>"),
        ({"type": "object", "additionalProperties": INT}, "map<string,bigint>"),
        ({"type": "object", "patternProperties": {"^x": INT}}, "map<string,bigint>"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"enum": [1, 2.5]}, "double"),
        ({"const": True}, "boolean"),
        ({"anyOf": [{"type": "null"}, obj(a=INT)]}, "struct<a:bigint>"),
        ({"oneOf": [obj(a=INT), obj(a=TEXT, b=INT)]}, "struct<a:string,b:bigint>"),
        ({"oneOf": [INT, TEXT]}, "string"),
        ({"allOf": [obj(a=INT), obj(b=TEXT)], **obj(c=INT)}, "struct<a:bigint,b:string,c:bigint>"),
        ({"allOf": [INT, {"minimum": 0}]}, "bigint"),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": INT}}, "bigint"),
        (
            {**obj(x={"$ref": "#/$defs/p"}, y={"$ref": "#/$defs/p"}), "$defs": {"p": obj(q=INT)}},
            "struct<x:struct<q:bigint>,y:struct<q:bigint>>",
        ),
        ({"$id": "http://x/me.json", **obj(x={"$ref": "http://x/me.json#/$defs/p"}), "$defs": {"p": INT}}, "struct<x:bigint>"),
    ],
)
def test_types(schema: Any, found: str) -> None:
    assert ddl(schema) == found


def test_other_documents() -> None:
    other = {"$defs": {"inner": {"$ref": "#/$defs/deep"}, "deep": INT}, **obj(z=TEXT)}
    schema = obj(a={"$ref": "other.json"}, b={"$ref": "other.json#/$defs/inner"})
    assert ddl(schema, **{"other.json": other}) == "struct<a:struct<z:string>,b:bigint>"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$defs": {"n": obj(next={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"}, "#/\\$defs/n of the JSON schema contains itself"),
        (obj(a={"$ref": "#"}), "contains itself"),
        ({"$ref": "#/nowhere"}, "does not exist"),
        ({"$ref": "gone.json"}, "refers to gone.json, which is not among its references"),
        ({"type": "text"}, "text is not a type of JSON Schema"),
        (5, "a JSON schema must be an object, not 5"),
        (obj(a=5), "a JSON schema must be an object, not 5"),
        ({"anyOf": 5}, "anyOf of a JSON schema must be a list"),
    ],
)
def test_schemas_that_have_no_type(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        ddl(schema)


def test_schemas_are_bounded() -> None:
    deep: Any = INT
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="more than 50 levels deep"):
        ddl(deep)
    definitions: dict[str, Any] = {"t0": obj(x=INT)}
    for level in range(1, 15):
        definitions[f"t{level}"] = obj(a={"$ref": f"#/$defs/t{level - 1}"}, b={"$ref": f"#/$defs/t{level - 1}"})
    with pytest.raises(SchemaError, match="more than 10000 fields"):
        ddl({"$ref": "#/$defs/t14", "$defs": definitions})
    with pytest.raises(SchemaError, match="is not JSON"):
        json_schema_type("{")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a INT", "STRUCT<a INT>"),
        ("a: INT, b STRING", "STRUCT<a: INT, b STRING>"),
        ("map INT, array ARRAY<INT>", "STRUCT<map INT, array ARRAY<INT>>"),
        ("bigint", "bigint"),
        ("decimal(10, 2)", "decimal(10, 2)"),
        ("Array<struct<a:int>>", "Array<struct<a:int>>"),
        (" struct<a:int> ", " struct<a:int> "),
        ("interval day to second", "interval day to second"),
    ],
)
def test_ddl_is_the_text_of_one_type(given: str, text: str) -> None:
    assert type_text(given) == text
