# fastavro has no complete types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Codec of Avro values without a file container, by fastavro.

Logical types become decimal.Decimal, datetime.date and time, datetime.datetime in UTC (local timestamps: without a time zone) and
uuid.UUID. Bytes and fixed become bytes, an enum its symbol, a union the value of its branch.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.client.schemas.avro_guard import MAX_DEPTH, AvroGuard
from odradek.client.schemas.errors import SchemaError, UndecodableValue, UnencodableValue, one_line
from odradek.client.schemas.optional_libraries import need_fastavro
from odradek.client.schemas.references import named, resolved
from odradek.client.schemas.types import AVRO, Schema, SchemaSource, parsed_json

if TYPE_CHECKING:
    from collections.abc import Callable

_WRAPPER: Final = "OdradekValue"
_WRAPPED: Final = "value"
_MAX_TEXT: Final = 1 << 22
"""Maximum number of characters of a schema; the largest schemas in use have some hundred KiB."""


class AvroSchema:
    """Parsed Avro schema, for reading and writing."""

    def __init__(self, source: SchemaSource | None, schema: Schema) -> None:
        """Parse the schema.

        Raises OdradekError without fastavro, SchemaError for an invalid schema, and the errors of `source` for references.
        """
        need_fastavro()
        if schema.type != AVRO:
            raise SchemaError(f"the schema has the type {schema.type} instead of {AVRO}")
        self.schema = schema
        self._named: dict[str, Any] = {}
        if schema.references:
            if source is None:
                raise SchemaError(f"the schema refers to {schema.references[0].subject}: a schema registry is needed to look it up")
            for name, each in named(resolved(source, schema), AVRO):
                parsed = _parsed(each, self._named)
                # A referenced union or array does not have a name in its text.
                if name not in self._named and not isinstance(parsed, dict):
                    self._named[name] = parsed
        self._referred = dict(self._named)
        self._wrapped: Any = None
        self.parsed: Any = _parsed(schema, self._named)
        self.is_wrapped = isinstance(self.parsed, list) or bool(schema.references)
        """True if `parsed` is a record around the schema. fastavro resolves references only from within a record.

        The bytes are the same.
        """
        if self.is_wrapped:
            self.parsed = self.wrapped()
        self._is_dangerous = AvroGuard(self.parsed, self._named).needed()

    def wrapped(self) -> Any:
        """Return the schema as the field of a record."""
        from fastavro import parse_schema

        if self._wrapped is None:
            record = {
                "type": "record",
                "name": _WRAPPER,
                "fields": [{"name": _WRAPPED, "type": _parsed(self.schema, dict(self._referred))}],
            }
            self._wrapped = parse_schema(record, named_schemas=dict(self._referred))
        return self._wrapped

    def guard(self) -> AvroGuard | None:
        """Return the guard for values of a schema that needs a check before decoding, else None."""
        return AvroGuard(self.parsed, self._named) if self._is_dangerous else None

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises UnencodableValue for a value that does not fit the schema."""
        from fastavro import schemaless_writer
        from fastavro.validation import validate

        output = BytesIO()
        if self._is_dangerous and _is_too_deep(value):
            raise UnencodableValue(f"the value contains itself, or is nested more than {MAX_DEPTH // 2} deep")
        try:
            schemaless_writer(output, self.parsed, {_WRAPPED: value} if self.is_wrapped else value)
        except Exception as error:
            why: Exception = error
            try:
                # The error of `validate` names the field.
                validate({_WRAPPED: value} if self.is_wrapped else value, self.parsed)
            except Exception as explained:
                why = explained
            raise UnencodableValue(f"the value does not fit its Avro schema: {one_line(why)}") from None
        return output.getvalue()


class AvroDecoder:
    """Decoder of values that were written with one schema."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema | None = None) -> None:
        """Create a decoder. With a `reader` values are returned in the reader's schema (Avro's schema resolution).

        Schema resolution drops fields that `reader` does not have, and fills fields that only `reader` has with their defaults.
        """
        from fastavro import schemaless_reader

        self._read = cast("Callable[..., Any]", schemaless_reader)
        self._is_wrapped = writer.is_wrapped or (reader is not None and reader.is_wrapped)
        self._writer = writer.wrapped() if self._is_wrapped else writer.parsed
        self._reader = None
        if reader is not None and reader.schema != writer.schema:
            self._reader = reader.wrapped() if self._is_wrapped else reader.parsed
        self._guard = writer.guard()

    def decode(self, data: bytes, start: int) -> Any:
        """Return the value that takes all bytes from `start` on. Raises UndecodableValue."""
        if self._guard is not None:
            self._guard.check(data, start)
        stream = BytesIO(data)
        stream.seek(start)
        try:
            value = self._read(stream, self._writer, self._reader)
        except Exception as error:
            raise UndecodableValue(_why(error, data)) from None
        left = len(data) - stream.tell()
        if left:
            raise UndecodableValue(f"{left} bytes remain after a value of the Avro schema: the value was written with another schema")
        return value[_WRAPPED] if self._is_wrapped else value


def record_name(schema: Schema) -> str | None:
    """Return the full name of the record, enum or fixed, or None for a schema without a name. Raises SchemaError for invalid JSON."""
    parsed = parsed_json(schema)
    if not isinstance(parsed, dict) or not isinstance(parsed.get("name"), str):
        return None
    name, space = str(parsed["name"]), parsed.get("namespace")
    return name if "." in name or not isinstance(space, str) or not space else f"{space}.{name}"


def _why(error: Exception, data: bytes) -> str:
    if isinstance(error, EOFError):
        return f"the {len(data)} bytes end within a value of the Avro schema"
    if type(error).__name__ == "SchemaResolutionError":
        return f"the schema of the value and the schema of the reader do not agree: {one_line(error)}"
    return f"malformed value of the Avro schema: {one_line(error)}"


def _is_too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    # A value that contains itself adds two levels each time, a record and a union.
    for _ in range(MAX_DEPTH // 2):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list, tuple))]
        level = [each for group in inner for each in group]
        if not level:
            return False
    return True


def _parsed(schema: Schema, known: dict[str, Any]) -> Any:
    from fastavro import parse_schema

    if len(schema.text) > _MAX_TEXT:
        raise SchemaError(f"a schema of {len(schema.text)} characters is too long: the limit is {_MAX_TEXT}")
    try:
        return parse_schema(parsed_json(schema), named_schemas=known)
    except SchemaError:
        raise
    except Exception as error:
        raise SchemaError(f"malformed Avro schema: {type(error).__name__}: {one_line(error)}") from None
