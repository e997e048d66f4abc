"""Readers of Avro records as rows: bare records, and records that name their schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from odradek.client.schemas.avro import AvroSchema
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.errors import SchemaError, one_line
from odradek.client.schemas.references import named, resolved
from odradek.client.schemas.types import AVRO, Schema, SchemaSource, parsed_json
from odradek.client.schemas.wire import PREFIX_SIZE, SchemaKey, read_prefix
from odradek.spark.functions.avro_plan import Plan, Row, plan
from odradek.spark.functions.avro_schema import AvroType, avro_type

_CAPACITY = 1000


def normal(schema: Schema, source: SchemaSource | None = None) -> AvroType:
    """Return a schema with all of its references in normal form.

    Raises OdradekError without fastavro, SchemaError for an invalid schema, and the errors of `source`.
    """
    AvroSchema(source, schema)
    referred = {} if source is None else {name: parsed_json(each) for name, each in named(resolved(source, schema), AVRO)}
    return avro_type(parsed_json(schema), referred)


class BareAvro:
    """Reader of values of one schema, without a prefix."""

    def __init__(self, writer: Schema, reader: Schema | None) -> None:
        mine = normal(writer)
        found = plan(mine, None if reader is None or reader == writer else normal(reader))
        self._read = found.read
        self.layout = found.layout
        self.width = found.width

    def row(self, data: bytes) -> Row:
        """Return a record's row; see `RowReader`."""
        return self._read(data, 0)


class NamedAvro:
    """Reader of values that name their schema, resolved to one reader's schema."""

    def __init__(self, source: SchemaSource, reader: Schema) -> None:
        self._source = source
        self._reader = normal(reader, source)
        own = plan(self._reader)
        self._own = own
        self.layout = own.layout
        self.width = own.width
        self._plans: Cache[SchemaKey, Plan] = Cache(_CAPACITY)
        self._by_prefix: dict[bytes, Callable[[bytes, int], Row]] = {}

    def row(self, data: bytes) -> Row:
        """Return a record's row; see `RowReader`."""
        read = self._by_prefix.get(data[:PREFIX_SIZE])
        return self._first(data) if read is None else read(data, PREFIX_SIZE)

    def _first(self, data: bytes) -> Row:
        key, start = read_prefix(data)
        found = self._plans.get(key)
        if found is None:
            found = self._plans.put(key, self._plan(key))
        if start == PREFIX_SIZE:
            if len(self._by_prefix) >= _CAPACITY:
                self._by_prefix.clear()
            self._by_prefix[data[:PREFIX_SIZE]] = found.read
        return found.read(data, start)

    def _plan(self, key: SchemaKey) -> Plan:
        schema = self._source.schema(key) if isinstance(key, int) else self._source.schema_by_guid(key)
        if schema.type != AVRO:
            raise SchemaError(f"schema {key} has the type {schema.type} instead of {AVRO}")
        writer = normal(schema, self._source)
        if writer == self._reader:
            return self._own
        try:
            return plan(writer, self._reader)
        except SchemaError as error:
            why = one_line(error)
            return self._own._replace(read=_refuse(f"schema {key} and the schema of the column do not agree: {why}"))


@lru_cache(maxsize=_CAPACITY)
def _refuse(why: str) -> Callable[[bytes, int], Row]:
    def read(data: bytes, start: int) -> Row:
        raise SchemaError(why)

    return read
