# protobuf has no complete types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Spark type of a Protobuf message, the same as Spark's from_protobuf has, with its options under their names.

An enum is a string, uint32 an int, uint64 a bigint, a Timestamp a timestamp, a Duration an interval, a wrapper a struct of `value`.
Messages without fields are left out. Unlike in Spark, Struct, Value and ListValue are strings with their JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.base.errors import ConfigError
from odradek.client.schemas.errors import SchemaError
from odradek.spark.functions.limits import MAX_DEPTH, MAX_FIELDS

_GOOGLE: Final = "google.protobuf."
_JSON: Final = frozenset(f"{_GOOGLE}{name}" for name in ("Struct", "Value", "ListValue"))
_WRAPPERS: Final = frozenset(
    f"{_GOOGLE}{name}Value" for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
# Constants of FieldDescriptor.
_INT32, _INT64, UINT32, _UINT64, _DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING, _MESSAGE = range(1, 11)
_BYTES: Final = 12
_PLAIN: Final[dict[int, type[DataType]]] = {
    _INT32: IntegerType,
    _INT64: LongType,
    UINT32: IntegerType,
    _UINT64: LongType,
    _DOUBLE: DoubleType,
    _FLOAT: FloatType,
    _BOOL: BooleanType,
    _STRING: StringType,
}

PLAIN: Final = "plain"
UNSIGNED: Final = "unsigned"
ENUM: Final = "enum"
TIMESTAMP: Final = "timestamp"
DURATION: Final = "duration"
JSON: Final = "json"
WRAPPER: Final = "wrapper"
MESSAGE: Final = "message"

SINGLE: Final = "single"
REPEATED: Final = "repeated"
MAP: Final = "map"


class Options(NamedTuple):
    """Options of Spark's from_protobuf."""

    emit_default_values: bool = False
    enums_as_ints: bool = False
    upcast_unsigned_ints: bool = False
    unwrap_primitive_wrapper_types: bool = False
    recursive_fields_max_depth: int = -1


class Value(NamedTuple):
    """Type of one value and how to convert it."""

    type: DataType
    kind: str
    descriptor: Any
    """Descriptor of the field, or for an enum or message of that type; for a wrapper the inner `Value`."""
    fields: tuple[Field, ...] = ()


class Field(NamedTuple):
    """Field of a message that has a column."""

    name: str
    shape: str
    value: Value
    key: Value | None
    has_presence: bool
    """True if the field can tell that it is not set."""
    has_default: bool
    """True if the schema gives the field a default (proto2)."""
    required: bool

    def spark(self) -> StructField:
        """Return the field as one of a struct."""
        if self.key is not None:
            return StructField(self.name, MapType(self.key.type, self.value.type, False), True)
        if self.shape == REPEATED:
            return StructField(self.name, ArrayType(self.value.type, False), True)
        return StructField(self.name, self.value.type, not self.required)


def protobuf_options(given: Mapping[str, Any] | None) -> Options:
    """Return the options by Spark's names. Raises ConfigError, which names the option, for an unknown option or an invalid value."""
    found: dict[str, Any] = {}
    for name, value in (given or {}).items():
        field = name.replace(".", "_")
        if field not in Options._fields or "_" in name:
            there = ", ".join(each.replace("_", ".") for each in Options._fields)
            raise ConfigError(f"{name} is not an option of from_protobuf; the options are {there}")
        text = str(value).lower()
        if field == "recursive_fields_max_depth":
            if not text.lstrip("-").isdecimal() or int(text) > 10:
                raise ConfigError(f"{name} must be a number of at most 10, not {value}")
            found[field] = int(text)
        elif text in ("true", "false"):
            found[field] = text == "true"
        else:
            raise ConfigError(f"{name} must be true or false, not {value}")
    return Options(**found)


def message_fields(descriptor: Any, options: Options) -> tuple[Field, ...]:
    """Return the fields of a message. Raises SchemaError for a recursive message unless `recursive.fields.max.depth` bounds it."""
    return _Fields(options).of(descriptor, {descriptor.full_name: 1}, 0)


def message_type(fields: tuple[Field, ...]) -> StructType:
    """Return the Spark type of a message's fields."""
    return StructType([each.spark() for each in fields])


class _Fields:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._count = 0

    def of(self, descriptor: Any, inside: dict[str, int], depth: int) -> tuple[Field, ...]:
        if depth > MAX_DEPTH:
            raise SchemaError(f"the Protobuf schema nests messages more than {MAX_DEPTH} levels deep")
        self._count += len(descriptor.fields)
        if self._count > MAX_FIELDS:
            raise SchemaError(f"the Protobuf schema has more than {MAX_FIELDS} fields")
        return tuple(field for each in descriptor.fields for field in [self._field(each, inside, depth)] if field is not None)

    def _field(self, field: Any, inside: dict[str, int], depth: int) -> Field | None:
        repeated = is_repeated(field)
        if field.cpp_type == _MESSAGE and repeated and field.message_type.GetOptions().map_entry:
            parts = field.message_type.fields_by_name
            key, value = self._value(parts["key"], inside, depth), self._value(parts["value"], inside, depth)
            return None if key is None or value is None else Field(field.name, MAP, value, key, False, False, False)
        value = self._value(field, inside, depth)
        if value is None:
            return None
        shape = REPEATED if repeated else SINGLE
        return Field(field.name, shape, value, None, bool(field.has_presence), bool(field.has_default_value), is_required(field))

    def _value(self, field: Any, inside: dict[str, int], depth: int) -> Value | None:
        kind = field.cpp_type
        if kind == _MESSAGE:
            return self._message(field.message_type, inside, depth)
        if kind == _ENUM:
            return Value(IntegerType(), PLAIN, field) if self._options.enums_as_ints else Value(StringType(), ENUM, field.enum_type)
        if kind == _STRING and field.type == _BYTES:
            return Value(BinaryType(), PLAIN, field)
        if kind in (UINT32, _UINT64):
            if self._options.upcast_unsigned_ints:
                return Value(LongType() if kind == UINT32 else DecimalType(20, 0), PLAIN, field)
            return Value(_PLAIN[kind](), UNSIGNED, field)
        return Value(_PLAIN[kind](), PLAIN, field)

    def _message(self, message: Any, inside: dict[str, int], depth: int) -> Value | None:
        name = message.full_name
        if name == f"{_GOOGLE}Timestamp":
            return Value(TimestampType(), TIMESTAMP, message)
        if name == f"{_GOOGLE}Duration":
            return Value(DayTimeIntervalType(), DURATION, message)
        if name in _JSON:
            return Value(StringType(), JSON, message)
        if name in _WRAPPERS and self._options.unwrap_primitive_wrapper_types:
            inner = self._value(message.fields_by_name["value"], inside, depth)
            return None if inner is None else Value(inner.type, WRAPPER, inner)
        times = inside.get(name, 0)
        if times and self._options.recursive_fields_max_depth < 1:
            raise SchemaError(f"{name} contains itself: Spark does not support recursive types (recursive.fields.max.depth bounds it)")
        if times and times >= self._options.recursive_fields_max_depth:
            return None
        fields = self.of(message, {**inside, name: times + 1}, depth + 1)
        return Value(message_type(fields), MESSAGE, message, fields) if fields else None


def is_repeated(field: Any) -> bool:
    """Return whether a field has many values, in every release of protobuf."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def is_required(field: Any) -> bool:
    """Return whether a field is required (proto2), in every release of protobuf."""
    found = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if found is None else found)
