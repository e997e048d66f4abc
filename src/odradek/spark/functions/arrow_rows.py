# pyarrow has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Conversion of rows of plain values to Arrow arrays of a Spark type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.spark.functions.layout import Layout, Leaf

_PLAIN: Final[dict[type[DataType], Any]] = {
    NullType: pa.null(),
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BinaryType: pa.binary(),
    StringType: pa.string(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    DayTimeIntervalType: pa.duration("us"),
}


def arrow_type(type_: DataType) -> Any:
    """Return the Arrow type with which Spark exchanges values of a Spark type."""
    if isinstance(type_, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType), nullable=each.nullable) for each in type_.fields])
    if isinstance(type_, ArrayType):
        return pa.list_(pa.field("element", arrow_type(type_.elementType), nullable=type_.containsNull))
    if isinstance(type_, MapType):
        key = pa.field("key", arrow_type(type_.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(type_.valueType), nullable=type_.valueContainsNull))
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _PLAIN[type(type_)]


def array_of(layout: Layout, type_: DataType, rows: Sequence[tuple[Any, ...]], width: int, present: Sequence[bool]) -> Any:
    """Return the values of rows as an array, null where `present` is False. Raises ArrowInvalid for text that is not UTF-8."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
    return _array(layout, type_, columns, present)


def nullable(type_: DataType) -> DataType:
    """Return the type with all of its parts nullable."""
    if isinstance(type_, StructType):
        return StructType([type(each)(each.name, nullable(each.dataType), True, each.metadata) for each in type_.fields])
    if isinstance(type_, ArrayType):
        return ArrayType(nullable(type_.elementType), True)
    if isinstance(type_, MapType):
        return MapType(type_.keyType, nullable(type_.valueType), True)
    return type_


def _array(layout: Layout, type_: DataType, columns: Sequence[Sequence[Any]], present: Sequence[Any] | None) -> Any:
    if isinstance(layout, Leaf):
        return pa.array(columns[layout.place], arrow_type(type_))
    fields = cast(StructType, type_).fields
    children = [_array(child, field.dataType, columns, None) for (_, child), field in zip(layout.fields, fields, strict=True)]
    there = present if layout.place is None else columns[layout.place]
    mask = None if there is None or all(there) else pa.array([not each for each in there], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(type_)), mask=mask)
