# protobuf has no complete types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Readers of Protobuf records as rows: bare records, and records that name their schema."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

from pyspark.sql.types import DecimalType, StructType

from odradek.client.schemas.errors import SchemaError, UndecodableValue, one_line
from odradek.client.schemas.json_values import json_text
from odradek.client.schemas.protobuf import ProtobufSchema
from odradek.client.schemas.protobuf_plain import plain
from odradek.client.schemas.types import PROTOBUF, SchemaSource
from odradek.client.schemas.wire import PREFIX_SIZE, SchemaKey, read_indexes, read_prefix
from odradek.spark.functions import protobuf_types as types
from odradek.spark.functions.layout import Group, Leaf
from odradek.spark.functions.protobuf_types import Field, Options, Value, message_fields, message_type

Row = tuple[Any, ...]
Read = Callable[[Any], Any]
_CAPACITY: Final = 1000


class Message:
    """Message of a schema, and its columns."""

    def __init__(self, schema: ProtobufSchema, name: str | None, options: Options) -> None:
        """Find the message, by default the first of the file. Raises SchemaError."""
        descriptor = schema.message((0,)) if name is None else schema.named(name)
        self.name = str(descriptor.full_name)
        self.kind: Any = schema.message_class(descriptor)
        self.fields = message_fields(descriptor, options)
        if not self.fields:
            raise SchemaError(f"the message {self.name} has no fields that can be columns")

    @property
    def type(self) -> StructType:
        """Spark type of the message."""
        return message_type(self.fields)


class BareProtobuf:
    """Reader of values of one message, without a prefix."""

    def __init__(self, schema: ProtobufSchema, message: str, options: Options) -> None:
        found = Message(schema, message, options)
        self.name = found.name
        self._parse = found.kind.FromString
        self._reads = [_field(each, options) for each in found.fields]
        self.layout = Group(None, tuple((each.name, Leaf(place)) for place, each in enumerate(found.fields)))
        self.width = len(found.fields)

    def row(self, data: bytes) -> Row:
        """Return a record's row; see `RowReader`."""
        try:
            message = self._parse(data)
        except Exception as error:
            raise UndecodableValue(f"malformed message {self.name}: {one_line(error)}") from None
        return tuple([read(message) for read in self._reads])


class NamedProtobuf:
    """Reader of messages that name their schema, all parsed as one message: Protobuf matches fields by number."""

    def __init__(self, source: SchemaSource, schema: ProtobufSchema, message: str, options: Options) -> None:
        self._source = source
        self._bare = BareProtobuf(schema, message, options)
        self.layout = self._bare.layout
        self.width = self._bare.width
        self._starts: dict[bytes, int] = {}
        self._schemas: dict[SchemaKey, ProtobufSchema] = {}

    def row(self, data: bytes) -> Row:
        """Return a record's row; see `RowReader`."""
        # Nearly all records are the first message of their file, which takes a single byte.
        start = self._starts.get(data[: PREFIX_SIZE + 1])
        return self._bare.row(data[self._start(data) if start is None else start :])

    def _start(self, data: bytes) -> int:
        key, end = read_prefix(data)
        indexes, start = read_indexes(data, end)
        schema = self._schemas.get(key)
        if schema is None:
            if len(self._schemas) >= _CAPACITY:
                self._schemas.clear()
                self._starts.clear()
            schema = self._schemas[key] = self._schema(key)
        name = str(schema.message(indexes).full_name)
        if name != self._bare.name:
            raise SchemaError(f"the value is a message {name}, but the column has messages {self._bare.name}")
        if start == PREFIX_SIZE + 1:
            self._starts[data[:start]] = start
        return start

    def _schema(self, key: SchemaKey) -> ProtobufSchema:
        schema = self._source.schema(key) if isinstance(key, int) else self._source.schema_by_guid(key)
        if schema.type != PROTOBUF:
            raise SchemaError(f"schema {key} has the type {schema.type} instead of {PROTOBUF}")
        return ProtobufSchema(self._source, schema)


def _field(field: Field, options: Options) -> Read:
    """Return a function from a message to the column value of a field."""
    name, convert = field.name, _value(field.value, options)
    if field.key is not None:
        key = _value(field.key, options)
        return lambda message: [
            (each if key is None else key(each), value if convert is None else convert(value))
            for each, value in getattr(message, name).items()
        ]
    if field.shape == types.REPEATED:
        return lambda message: list(getattr(message, name)) if convert is None else [convert(each) for each in getattr(message, name)]
    if field.has_presence and not field.has_default:
        return lambda message: (
            None if not message.HasField(name) else getattr(message, name) if convert is None else convert(getattr(message, name))
        )
    if options.emit_default_values or field.has_presence:
        return lambda message: getattr(message, name) if convert is None else convert(getattr(message, name))
    # As in Spark, a field without presence counts as missing if it has the default value.
    return lambda message: (getattr(message, name) or None) if convert is None else _unless_zero(getattr(message, name), convert)


def _unless_zero(value: Any, convert: Read) -> Any:
    return convert(value) if value else None


def _value(value: Value, options: Options) -> Read | None:
    """Return the conversion of a Python protobuf value, None if it is used unchanged."""
    kind = value.kind
    if kind == types.PLAIN:
        return Decimal if isinstance(value.type, DecimalType) else None
    if kind == types.UNSIGNED:
        bits = 32 if value.descriptor.cpp_type == types.UINT32 else 64
        return lambda number: number - (1 << bits) if number >> (bits - 1) else number
    if kind == types.ENUM:
        names = {number: str(each.name) for number, each in value.descriptor.values_by_number.items()}
        title = str(value.descriptor.name)
        return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{title}_{number}"
    if kind == types.TIMESTAMP:
        return lambda moment: moment.seconds * 1_000_000 + moment.nanos // 1000
    if kind == types.DURATION:
        return lambda span: span.seconds * 1_000_000 + int(span.nanos / 1000)
    if kind == types.JSON:
        return lambda message: json_text(plain(message))
    if kind == types.WRAPPER:
        inner = _value(cast(Value, value.descriptor), options)
        return lambda message: message.value if inner is None else inner(message.value)
    reads = [(each.name, _field(each, options)) for each in value.fields]
    return lambda message: {name: read(message) for name, read in reads}
