# pyarrow has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""Writer of a column of values as bytes in the wire format, on Spark's workers. The driver has determined the schema and its id."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import pyarrow as pa

from odradek.client.schemas.avro import AvroSchema
from odradek.client.schemas.json_values import encode_json, plain_json
from odradek.client.schemas.protobuf import ProtobufSchema, encode_message, indexes_of
from odradek.client.schemas.types import AVRO, PROTOBUF, Schema
from odradek.client.schemas.wire import write_prefix
from odradek.spark.functions.avro_defaults import member
from odradek.spark.functions.avro_rows import normal
from odradek.spark.functions.avro_schema import AvroType, kind_of
from odradek.spark.functions.reading import Outcome, reason
from odradek.spark.functions.schema_location import Place

Convert = Callable[[Any], Any]


class Writing(NamedTuple):
    """Settings to write a column, in plain values. The repr hides them, as a place contains passwords."""

    place: Place
    schema: Schema
    schema_id: int
    message: str | None

    def __repr__(self) -> str:
        return f"Writing({self.schema.type})"


def encoded(writing: Writing, values: Any) -> Outcome:
    """Return the bytes for an Arrow array, and the errors. Null stays null."""
    encode, prefix = _encoder(writing)
    plain = _plain(values.type)
    output: list[bytes | None] = []
    errors: list[str | None] = []
    for value in values.to_pylist():
        data = error = None
        if value is not None:
            try:
                data = prefix + encode(value if plain is None else plain(value))
            except Exception as why:
                error = reason(why, b"")
        output.append(data)
        errors.append(error)
    return Outcome(pa.array(output, pa.binary()), errors)


@lru_cache(maxsize=32)
def _encoder(writing: Writing) -> tuple[Callable[[Any], bytes], bytes]:
    source, schema = writing.place.source(), writing.schema
    if schema.type == AVRO:
        avro, parsed = normal(schema, source), AvroSchema(source, schema)
        shape = _shape(avro, avro.schema, ())
        return (lambda value: parsed.encode(value if shape is None else shape(value))), write_prefix(writing.schema_id)
    if schema.type == PROTOBUF:
        file = ProtobufSchema(source, schema)
        descriptor = file.message((0,)) if writing.message is None else file.named(writing.message)
        return (lambda value: encode_message(file, descriptor, value)), write_prefix(writing.schema_id, indexes_of(descriptor))
    return (lambda value: encode_json(plain_json(_without_nulls(value)))), write_prefix(writing.schema_id)


def _without_nulls(value: Any) -> Any:
    """Leave out null fields of structs, as Spark's to_json does: few schemas allow null for them."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _plain(type_: Any) -> Convert | None:
    """Return the conversion of a Python value from Arrow to one with dicts for maps, None if it is used unchanged."""
    if pa.types.is_map(type_):
        inner = _plain(type_.item_type)
        return lambda pairs: None if pairs is None else {key: each if inner is None else inner(each) for key, each in pairs}
    if pa.types.is_struct(type_):
        parts = {field.name: found for field in type_ if (found := _plain(field.type)) is not None}
        if not parts:
            return None
        return lambda row: None if row is None else {name: parts[name](each) if name in parts else each for name, each in row.items()}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        inner = _plain(type_.value_type)
        return None if inner is None else lambda items: None if items is None else [inner(each) for each in items]
    return None


def _shape(avro: AvroType, schema: Any, inside: tuple[str, ...]) -> Convert | None:
    """Return the conversion of structs of `member0`, `member1` and so on to values of unions, None if it is not needed."""
    schema = avro.definition(schema)
    kind = kind_of(schema)
    if kind == "union":
        branches = {name: _shape(avro, each, inside) for index, each in enumerate(schema) if (name := member(avro, schema, index))}
        if branches:
            return lambda value: _picked(value, branches)
        others = [found for each in schema if (found := _shape(avro, each, inside)) is not None]
        return None if not others else lambda value: None if value is None else others[0](value)
    if kind == "record" and schema["name"] not in inside:
        fields = {each["name"]: _shape(avro, each["type"], (*inside, schema["name"])) for each in schema["fields"]}
        fields = {name: found for name, found in fields.items() if found is not None}
        if fields:
            return lambda row: _reshaped(row, cast(dict[str, Convert], fields))
    inner = _shape(avro, schema["items" if kind == "array" else "values"], inside) if kind in ("array", "map") else None
    if inner is None:
        return None
    if kind == "array":
        return lambda items: None if items is None else [inner(each) for each in items]
    return lambda pairs: None if pairs is None else {key: inner(each) for key, each in pairs.items()}


def _reshaped(row: Any, fields: dict[str, Convert]) -> Any:
    return {name: fields[name](each) if name in fields else each for name, each in row.items()} if isinstance(row, dict) else row


def _picked(value: Any, branches: dict[str, Convert | None]) -> Any:
    if not isinstance(value, dict) or not value.keys() <= branches.keys():
        return value
    for name, each in value.items():
        if each is not None:
            convert = branches[name]
            return each if convert is None else convert(each)
    return None
