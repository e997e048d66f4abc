# Neither pyarrow nor pandas has complete types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false
"""Python UDFs of Spark: on Arrow arrays where Spark has such functions (4.1 and newer), on pandas before.

The settings of a function are sent as plain values, and its reader is created once in each worker process. Readers and their cached schemas
live as long as the process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from odradek.base.errors import OdradekError
from odradek.client.schemas.types import AVRO, Schema
from odradek.spark.functions.arrow_rows import nullable
from odradek.spark.functions.protobuf_types import Options
from odradek.spark.functions.schema_location import Place

if TYPE_CHECKING:
    from odradek.spark.functions.reading import Outcome
    from odradek.spark.functions.writing import Writing

_FUNCTIONS: Final[Any] = F
"""`pyspark.sql.functions` without types: the available functions depend on the release."""


class Reading(NamedTuple):
    """Settings to read a column, in plain values. The repr hides them, as a place contains passwords."""

    type: DataType
    schema: Schema
    """Schema of the column: the reader's for Avro."""
    writer: Schema | None = None
    """Schema of the values, for Avro without a registry, if it differs from `schema`."""
    message: str | None = None
    options: Options | None = None
    """Options for Protobuf."""
    place: Place | None = None
    """Place of the schemas that values name; None for bare values."""

    def __repr__(self) -> str:
        return f"Reading({self.schema.type})"


def read_column(reading: Reading, data: Column, name: str, *, strict: bool) -> Column:
    """Return struct<value, error> for a binary column. Unless `strict`, all parts of a value are nullable, as in Spark."""
    reading = reading if strict else reading._replace(type=nullable(reading.type))
    outcome = StructType([StructField("value", reading.type, True), StructField("error", StringType(), True)])
    if hasattr(_FUNCTIONS, "arrow_udf"):
        return cast(Column, _FUNCTIONS.arrow_udf(_on_arrow(reading, name), outcome, _FUNCTIONS.ArrowUDFType.SCALAR)(data))
    return cast(Column, _FUNCTIONS.pandas_udf(_on_pandas(reading, name), outcome)(data))


def write_column(writing: Writing, data: Column) -> Column:
    """Return struct<value, error> for a column of any type. Raises OdradekError if Spark has no functions on Arrow arrays."""
    import pyspark

    if not hasattr(_FUNCTIONS, "arrow_udf"):
        raise OdradekError(f"to_registry needs Spark 4.1 or newer, and this is {pyspark.__version__}")
    outcome = StructType([StructField("value", BinaryType(), True), StructField("error", StringType(), True)])

    def to_registry(values: Any) -> Any:
        from odradek.spark.functions.writing import encoded

        return _struct(*encoded(writing, values))

    return cast(Column, _FUNCTIONS.arrow_udf(to_registry, outcome, _FUNCTIONS.ArrowUDFType.SCALAR)(data))


def _struct(values: Any, errors: list[str | None]) -> Any:
    import pyarrow as pa

    fields = [pa.field("value", values.type), pa.field("error", pa.string())]
    return pa.StructArray.from_arrays([values, pa.array(errors, pa.string())], fields=fields)


def _on_arrow(reading: Reading, name: str) -> Any:
    def function(data: Any) -> Any:
        return _struct(*outcome_of(reading, data.to_pylist()))

    function.__name__ = name
    return function


def _on_pandas(reading: Reading, name: str) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    def function(data: Any) -> Any:
        values, errors = outcome_of(reading, list(data))
        return pd.DataFrame(
            {"value": pd.Series(values.to_pylist(maps_as_pydicts="lossy"), dtype=object), "error": pd.Series(errors, dtype=object)}
        )

    # Spark derives the kind of function from these annotations.
    function.__annotations__ = {"data": pd.Series, "return": pd.DataFrame}
    function.__name__ = name
    return function


def outcome_of(reading: Reading, records: list[Any]) -> Outcome:
    """Return the values of records and their errors."""
    from odradek.spark.functions.reading import without_collector

    records = [each if each is None or type(each) is bytes else bytes(each) for each in records]
    return without_collector(lambda: _reader(reading).read(records))


@lru_cache(maxsize=32)
def _reader(reading: Reading) -> Any:
    from odradek.spark.functions.reading import ColumnReader

    return ColumnReader(_rows(reading), reading.type)


def _rows(reading: Reading) -> Any:
    source = None if reading.place is None else reading.place.source()
    if reading.schema.type == AVRO:
        from odradek.spark.functions.avro_rows import BareAvro, NamedAvro

        return BareAvro(reading.writer or reading.schema, reading.schema) if source is None else NamedAvro(source, reading.schema)
    from odradek.client.schemas.protobuf import ProtobufSchema
    from odradek.spark.functions.protobuf_rows import BareProtobuf, NamedProtobuf

    assert reading.message is not None
    assert reading.options is not None
    schema = ProtobufSchema(source, reading.schema)
    if source is None:
        return BareProtobuf(schema, reading.message, reading.options)
    return NamedProtobuf(source, schema, reading.message, reading.options)
