"""Settings of a column's reader or writer from schemas, on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import DataType

from odradek.base.errors import ConfigError
from odradek.client.schemas.errors import SchemaError
from odradek.client.schemas.protobuf import ProtobufSchema
from odradek.client.schemas.references import named, resolved
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, Schema, SchemaSource, as_schema
from odradek.spark.functions.avro_plan import plan
from odradek.spark.functions.avro_rows import normal
from odradek.spark.functions.avro_types import spark_type
from odradek.spark.functions.json_types import json_schema_type
from odradek.spark.functions.protobuf_rows import Message
from odradek.spark.functions.protobuf_types import Options, protobuf_options
from odradek.spark.functions.schema_location import Place
from odradek.spark.functions.udf import Reading
from odradek.spark.functions.writing import Writing


def avro_reading(writer: Schema, reader: Schema | None) -> Reading:
    """Return the settings for bare Avro values. Raises SchemaError for invalid schemas, and for schemas that can never agree."""
    schema = reader or writer
    avro = normal(schema)
    type_ = spark_type(avro).type
    if reader is not None:
        plan(normal(writer), avro)
    return Reading(type_, schema, None if reader is None else writer)


def protobuf_reading(schema: Schema, message: str, options: Options) -> Reading:
    """Return the settings for bare Protobuf values. Raises SchemaError."""
    found = Message(ProtobufSchema(None, schema), message, options)
    return Reading(found.type, schema, message=found.name, options=options)


def subject_reading(
    place: Place,
    subject: str | None,
    version: int | str,
    reader_schema: Schema | str | None,
    message: str | None,
    options: Mapping[str, Any] | None,
) -> Reading | DataType:
    """Return the settings for values that name their schema. For JSON return only the type, as Spark's own parser reads the values."""
    if reader_schema is not None and subject is not None:
        raise ConfigError("subject excludes reader_schema: give one of them")
    if reader_schema is None and subject is None:
        raise ConfigError("give subject or reader_schema: the type of the column comes from it")
    with place.without_cache() as source:
        if subject is not None:
            schema = subject_schema(source, subject, version)
        else:
            schema = reader_schema if isinstance(reader_schema, Schema) else Schema(str(reader_schema), AVRO)
        return _reading(place, source, schema, message, options)


def _reading(
    place: Place, source: SchemaSource, schema: Schema, message: str | None, options: Mapping[str, Any] | None
) -> Reading | DataType:
    if schema.type != PROTOBUF and (message is not None or options):
        raise ConfigError(
            f"{'message' if message is not None else 'options'} is only for Protobuf, but the schema has the type {schema.type}"
        )
    if schema.type == JSON:
        return json_schema_type(schema.text, {name: each.text for name, each in named(resolved(source, schema), JSON)})
    if schema.type == AVRO:
        return Reading(spark_type(normal(schema, source)).type, schema, place=place)
    choices = protobuf_options(options)
    found = Message(ProtobufSchema(source, schema), message, choices)
    return Reading(found.type, schema, message=found.name, options=choices, place=place)


def subject_writing(
    place: Place, subject: str, given: Schema | str | dict[str, Any] | None, message: str | None, register: bool, normalize: bool
) -> Writing:
    """Return the settings to write values with a schema of a subject: the given schema, or the latest."""
    with place.without_cache() as source:
        if given is None:
            found = source.latest(subject)
        else:
            schema = given if isinstance(given, Schema) else as_schema(given, AVRO)
            ask = source.register if register else source.lookup
            found = ask(subject, schema, normalize=normalize)._replace(schema=schema)
        schema = found.schema
        if found.schema_id is None:
            raise SchemaError(f"the schema of subject {subject} has no id")
        if message is not None and schema.type != PROTOBUF:
            raise ConfigError(f"message is only for Protobuf, but the schema has the type {schema.type}")
        if schema.type == PROTOBUF:
            Message(ProtobufSchema(source, schema), message, Options(recursive_fields_max_depth=1))
        elif schema.type == AVRO:
            normal(schema, source)
        return Writing(place, schema, found.schema_id, message)


def subject_schema(source: SchemaSource, subject: str, version: int | str) -> Schema:
    """Return a version of a subject. Raises ConfigError for an invalid version."""
    if version == "latest":
        return source.latest(subject).schema
    if isinstance(version, bool) or not str(version).isdecimal() or int(version) < 1:
        raise ConfigError(f"version must be `latest` or a number of at least 1, not {version}")
    return source.version(subject, int(version)).schema
