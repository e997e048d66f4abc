# Schemas are JSON, which has no types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Spark type of an Avro schema, the same as Spark's from_avro has.

Logical types: date, timestamp-millis and timestamp-micros (timestamp), their local- forms (timestamp_ntz), decimal. All others (time-*,
uuid, timestamp-nanos, duration) keep their underlying type: int, long, string or bytes. An enum is a string, fixed is binary.

A union with null is nullable. A union of int and long is a long, of float and double a double. Other unions are structs of `member0`,
`member1` and so on, without null; exactly one member is set.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.client.schemas.errors import SchemaError
from odradek.spark.functions.avro_schema import AvroType, kind_of
from odradek.spark.functions.limits import MAX_DEPTH, MAX_FIELDS

_PLAIN: Final[dict[str, type[DataType]]] = {
    "null": NullType,
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "string": StringType,
    "enum": StringType,
    "fixed": BinaryType,
}
_LOGICAL: Final[dict[tuple[str, str], type[DataType]]] = {
    ("int", "date"): DateType,
    ("long", "timestamp-millis"): TimestampType,
    ("long", "timestamp-micros"): TimestampType,
    ("long", "local-timestamp-millis"): TimestampNTZType,
    ("long", "local-timestamp-micros"): TimestampNTZType,
}
_MAX_PRECISION: Final = 38
_WIDER: Final = ({"int", "long"}, {"float", "double"})


class Typed(NamedTuple):
    """Type, and whether it is nullable."""

    type: DataType
    nullable: bool


class DecimalOf(NamedTuple):
    """Number of digits of a decimal, in all (precision) and after the point (scale)."""

    precision: int
    scale: int


def spark_type(avro: AvroType) -> Typed:
    """Return the type. Raises SchemaError for a recursive type, for too deep nesting, and for a decimal of more than 38 digits."""
    return _Types(avro).of(avro.schema, ())


def decimal_of(schema: Any) -> DecimalOf | None:
    """Return precision and scale of the logical type decimal.

    None without it, and for a contradictory decimal, which Avro has to ignore.
    """
    if not isinstance(schema, dict) or schema.get("logicalType") != "decimal" or schema["type"] not in ("bytes", "fixed"):
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if schema["type"] == "fixed":
        size = int(schema["size"])
        if size == 0 or precision >= len(str(2 ** (8 * size - 1) - 1)):
            return None
    return DecimalOf(precision, scale)


def wider(branches: list[Any]) -> str | None:
    """Return the type of a union of two numbers, None for other unions."""
    if len(branches) != 2:
        return None
    kinds = {kind_of(each) for each in branches}
    return next(("long" if "long" in each else "double" for each in _WIDER if kinds == each), None)


class _Types:
    def __init__(self, avro: AvroType) -> None:
        self._avro = avro
        self._fields = 0

    def of(self, schema: Any, inside: tuple[str, ...]) -> Typed:
        schema = self._avro.definition(schema)
        kind = kind_of(schema)
        if len(inside) > MAX_DEPTH:
            raise SchemaError(f"the Avro schema nests types more than {MAX_DEPTH} levels deep")
        if kind == "union":
            return self._union(schema, inside)
        if kind == "array":
            items = self.of(schema["items"], (*inside, ""))
            return Typed(ArrayType(items.type, items.nullable), False)
        if kind == "map":
            values = self.of(schema["values"], (*inside, ""))
            return Typed(MapType(StringType(), values.type, values.nullable), False)
        if kind == "record":
            return Typed(self._record(schema, inside), False)
        decimal = decimal_of(schema)
        if decimal is not None:
            if decimal.precision > _MAX_PRECISION:
                raise SchemaError(f"a decimal of {decimal.precision} digits is too long: Spark supports {_MAX_PRECISION} digits")
            return Typed(DecimalType(decimal.precision, decimal.scale), False)
        logical = str(schema.get("logicalType")) if isinstance(schema, dict) else ""
        return Typed(_LOGICAL.get((kind, logical), _PLAIN[kind])(), kind == "null")

    def _record(self, schema: Any, inside: tuple[str, ...]) -> DataType:
        name = schema["name"]
        if name in inside:
            raise SchemaError(f"{name} contains itself: Spark does not support recursive types (a reader_schema can leave the field out)")
        self._count(len(schema["fields"]))
        fields: list[StructField] = []
        for field in schema["fields"]:
            each = self.of(field["type"], (*inside, name))
            fields.append(StructField(field["name"], each.type, each.nullable))
        return StructType(fields)

    def _union(self, schema: list[Any], inside: tuple[str, ...]) -> Typed:
        branches = [each for each in map(self._avro.definition, schema) if kind_of(each) != "null"]
        nullable = len(branches) < len(schema)
        if not branches:
            return Typed(NullType(), True)
        if len(branches) == 1:
            only = self.of(branches[0], (*inside, ""))
            return Typed(only.type, nullable or only.nullable)
        number = wider(branches)
        if number is not None:
            return Typed(_PLAIN[number](), nullable)
        self._count(len(branches))
        members = [self.of(each, (*inside, "")) for each in branches]
        return Typed(StructType([StructField(f"member{index}", each.type, True) for index, each in enumerate(members)]), nullable)

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MAX_FIELDS:
            raise SchemaError(f"the Avro schema has more than {MAX_FIELDS} fields")
