# Neither pyarrow nor pandas has complete types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false
"""Functions of Spark that run in Python: on Arrow arrays where the Spark has such functions (4.1 and newer), on pandas before.

What a function is made of travels as plain values, and is built once in each worker process: as long as the process lives, the readers and
what they know of schemas stay.
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
from odradek.spark.functions.place import Place
from odradek.spark.functions.protobuf_types import Options

if TYPE_CHECKING:
    from odradek.spark.functions.reading import Outcome
    from odradek.spark.functions.writing import Writing

_FUNCTIONS: Final[Any] = F
"""Not typed: which of them there are depends on the release."""


class Reading(NamedTuple):
    """What a column is read with, in plain values. Not shown: a place holds passwords."""

    type: DataType
    schema: Schema
    """That of the column: the reader's for Avro."""
    writer: Schema | None = None
    """Avro without a registry: the schema of the values, where it is another."""
    message: str | None = None
    options: Options | None = None
    """Protobuf."""
    place: Place | None = None
    """Where the schemas are that values name; None for bare ones."""

    def __repr__(self) -> str:
        return f"Reading({self.schema.type})"


def read_column(reading: Reading, data: Column, name: str, *, strict: bool) -> Column:
    """struct<value, error> of a binary column. Where nothing ends the query, everything within a value may be null, as Spark has it."""
    reading = reading if strict else reading._replace(type=nullable(reading.type))
    outcome = StructType([StructField("value", reading.type, True), StructField("error", StringType(), True)])
    if hasattr(_FUNCTIONS, "arrow_udf"):
        return cast(Column, _FUNCTIONS.arrow_udf(_on_arrow(reading, name), outcome, _FUNCTIONS.ArrowUDFType.SCALAR)(data))
    return cast(Column, _FUNCTIONS.pandas_udf(_on_pandas(reading, name), outcome)(data))


def write_column(writing: Writing, data: Column) -> Column:
    """struct<value, error> of a column of any type; OdradekError on a Spark without functions on Arrow arrays."""
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

    # Spark takes the kind of function from these.
    function.__annotations__ = {"data": pd.Series, "return": pd.DataFrame}
    function.__name__ = name
    return function


def outcome_of(reading: Reading, records: list[Any]) -> Outcome:
    """The values of records and their errors."""
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
