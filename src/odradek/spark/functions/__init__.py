"""Keys and values of records in columns: JSON, Avro, Protobuf, bare or in Confluent's wire format (docs/spark-functions.md).

from odradek.spark.functions import from_json

rows.select(from_json("value", "id BIGINT, name STRING", errors=True).alias("order"))
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType

from odradek.base.errors import ConfigError
from odradek.spark.functions import json_columns
from odradek.spark.functions.columns import FAILFAST, as_column, handled, handling, titled
from odradek.spark.functions.json_types import json_schema_type

__all__ = ["from_json"]


def from_json(column: Any, schema: DataType | str, *, mode: str = FAILFAST, errors: bool = False) -> Column:
    """JSON in a column of text or bytes; null of null.

    `schema` is a type of Spark, the text of one (DDL), or a JSON Schema. A record that is no JSON of this type ends the query with
    one line (FAILFAST), or is null (PERMISSIVE). With `errors` the column is struct<value, error>: such a record has its reason in `error`.
    """
    how = handling(mode, errors)
    return handled(json_columns.parsed(as_column(column).cast("string"), _json_type(schema)), how, titled("from_json", column))


def _json_type(schema: DataType | str) -> DataType:
    if isinstance(schema, DataType):
        return schema
    if not isinstance(schema, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"schema must be a type of Spark, DDL or a JSON Schema, not {type(schema).__name__}")
    if schema.lstrip().startswith("{"):
        return json_schema_type(schema)
    return DataType.fromDDL(schema)
