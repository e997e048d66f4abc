"""Functions for keys and values in columns: JSON, Avro, Protobuf, bare or in Confluent's wire format
(docs/spark-functions.md).

    from odradek.spark.functions import from_registry

    rows.select(from_registry("value", "http://localhost:8081", subject="orders-value").alias("order"))

All decoders have `mode` and `errors`. For an unreadable record the query fails with a one-line error (mode FAILFAST), or the value is null
(PERMISSIVE). With `errors` the column is struct<value, error>: an unreadable record has value null, and the reason in `error`. Null stays
null.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType

from odradek.base.errors import ConfigError
from odradek.client.schemas.types import AVRO, PROTOBUF, Schema, as_schema
from odradek.spark.functions import json_columns
from odradek.spark.functions.columns import FAILFAST, as_column, handled, handling, titled
from odradek.spark.functions.json_types import json_schema_type
from odradek.spark.functions.protobuf_types import protobuf_options
from odradek.spark.functions.schema_location import place_of
from odradek.spark.functions.subjects import avro_reading, protobuf_reading, subject_reading, subject_writing
from odradek.spark.functions.udf import read_column, write_column

__all__ = ["from_avro", "from_json", "from_protobuf", "from_registry", "to_registry"]


def from_registry(
    column: Any,
    source: Any,
    *,
    subject: str | None = None,
    version: int | str = "latest",
    reader_schema: Schema | str | None = None,
    message: str | None = None,
    mode: str = FAILFAST,
    errors: bool = False,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Column:
    """Return a column decoded from Confluent's wire format: Avro, Protobuf or JSON after the id of a schema.

    `source` is the URL of a schema registry, a list of URLs, a mapping of a registry's keys, or a folder of schemas. Keyword arguments with
    underscores add further keys.

    The type of the column is that of `reader_schema` (text is Avro), or of a subject's version; it is determined now. Each record is read
    by the schema that its id names: Avro is resolved to the type of the column, Protobuf fields match by number, JSON uses only its type.

    `message` and `options` are for Protobuf (see `from_protobuf`); the default is the first message of the file.

    Raises ConfigError for invalid arguments, and SchemaError, UnknownSchema and RegistryError for the schemas.
    """
    how = handling(mode, errors)
    place = place_of(source, settings)
    found = subject_reading(place, subject, version, reader_schema, message, options)
    name = titled("from_registry", column)
    if isinstance(found, DataType):
        return handled(json_columns.framed(as_column(column).cast("binary"), found), how, name)
    return handled(read_column(found, as_column(column).cast("binary"), "from_registry", strict=how.is_strict), how, name)


def to_registry(
    column: Any,
    source: Any,
    *,
    subject: str,
    schema: Schema | str | dict[str, Any] | None = None,
    message: str | None = None,
    auto_register_schemas: bool = True,
    normalize_schemas: bool = False,
    **settings: Any,
) -> Column:
    """Return a column encoded in Confluent's wire format, as binary. A value that does not fit fails the query in one line.

    Null stays null. `schema` (text is Avro; `odradek.client.schemas.Schema` for others) is registered under the subject now. Without
    `auto_register_schemas` it has to be registered already. Without `schema` the subject's latest is used.

    Fields match by name. `message` is for Protobuf; the default is the first message of the file. Source and settings as in
    `from_registry`. Needs Spark 4.1.
    """
    writing = subject_writing(place_of(source, settings), subject, schema, message, auto_register_schemas, normalize_schemas)
    return handled(write_column(writing, as_column(column)), handling(FAILFAST, False), titled("to_registry", column))


def from_avro(
    column: Any,
    schema: Schema | str | dict[str, Any] | list[Any],
    *,
    reader_schema: Schema | str | dict[str, Any] | list[Any] | None = None,
    mode: str = FAILFAST,
    errors: bool = False,
) -> Column:
    """Return a column of Avro written with `schema`, read as `reader_schema` (Avro's schema resolution), with the types of Spark's
    from_avro.

    Raises OdradekError without fastavro, SchemaError for an invalid Avro schema, or one without a Spark type.
    """
    how = handling(mode, errors)
    reading = avro_reading(as_schema(schema, AVRO), None if reader_schema is None else as_schema(reader_schema, AVRO))
    data = as_column(column).cast("binary")
    return handled(read_column(reading, data, "from_avro", strict=how.is_strict), how, titled("from_avro", column))


def from_protobuf(
    column: Any,
    message: str,
    descriptors: str | PathLike[str] | bytes,
    *,
    mode: str = FAILFAST,
    errors: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Column:
    """Return a column of decoded Protobuf messages, with the types of Spark's from_protobuf.

    `descriptors` is a FileDescriptorSet, or the path of one: `protoc --include_imports --descriptor_set_out` writes it. `options` are
    Spark's: emit.default.values, enums.as.ints, recursive.fields.max.depth, upcast.unsigned.ints, unwrap.primitive.wrapper.types.

    Raises ConfigError for invalid arguments, OdradekError without protobuf, SchemaError for an invalid descriptor or a missing message.
    """
    how = handling(mode, errors)
    data: bytes
    if isinstance(descriptors, bytes):
        data = descriptors
    else:
        try:
            data = Path(descriptors).read_bytes()
        except OSError as error:
            raise ConfigError(f"descriptors: {descriptors!s}: {error.strerror}") from None
    reading = protobuf_reading(Schema(b64encode(data).decode(), PROTOBUF), message, protobuf_options(options))
    records = as_column(column).cast("binary")
    return handled(read_column(reading, records, "from_protobuf", strict=how.is_strict), how, titled("from_protobuf", column))


def from_json(column: Any, schema: DataType | str, *, mode: str = FAILFAST, errors: bool = False) -> Column:
    """Return a column of text or bytes decoded as JSON, by Spark's own parser.

    `schema` is a Spark type, its text (DDL), or a JSON Schema. Raises SchemaError for a JSON Schema without a Spark type.
    """
    how = handling(mode, errors)
    return handled(json_columns.parsed(as_column(column).cast("string"), _json_type(schema)), how, titled("from_json", column))


def _json_type(schema: DataType | str) -> DataType | str:
    if isinstance(schema, DataType):
        return schema
    if not isinstance(schema, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"schema must be a Spark type, DDL or a JSON Schema, not {type(schema).__name__}")
    return json_schema_type(schema) if schema.lstrip().startswith("{") else json_columns.type_text(schema)
