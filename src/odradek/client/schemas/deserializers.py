"""Deserializers of values that name their schema, for both consumers.

    Consumer(bootstrap_servers="localhost:9092", value_deserializer=SchemaDeserializer(SchemaRegistry("http://localhost:8081")))

Consumers ask for a new schema in the event loop's default executor, never in an event loop, before they return its records. Threads and
consumers may share a deserializer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.client.schemas.decoding import Headers, RegistryDecoder
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, TYPES, Schema, SchemaSource


class SchemaDeserializer:
    """Deserializer of values of any schema type."""

    types: Sequence[str] = TYPES

    def __init__(self, registry: SchemaSource, *, reader_schema: Schema | str | None = None) -> None:
        """Create a deserializer. With a `reader_schema` Avro records are returned in that schema.

        Raises SchemaError for an invalid `reader_schema`, and OdradekError if it is given without fastavro.
        """
        # The header that may name a schema depends on the part.
        self._decoders = {
            part: RegistryDecoder(registry, part=part, reader_schema=reader_schema, types=self.types) for part in ("key", "value")
        }

    def deserialize(self, topic: str, part: str, data: bytes, headers: Headers) -> Any:
        """Return the key or value. Raises WireFormatError, UndecodableValue, SchemaError or RegistryError."""
        return self._decoders[part].decode(data, headers)

    def is_ready(self, part: str, data: bytes, headers: Headers) -> bool:
        """Return whether `deserialize` would not ask the registry."""
        return self._decoders[part].is_ready(data, headers)

    def prepare(self, part: str, data: bytes, headers: Headers) -> bool:
        """Ask for the schema of a key or value. Return False for a failure, which the next `deserialize` of that schema raises."""
        return self._decoders[part].prepare(data, headers)


class AvroDeserializer(SchemaDeserializer):
    """Deserializer of Avro. A schema of another type is an error."""

    types = (AVRO,)


class JsonDeserializer(SchemaDeserializer):
    """Deserializer of JSON after the id of a JSON schema. Values are not validated against the schema."""

    types = (JSON,)


class ProtobufDeserializer(SchemaDeserializer):
    """Deserializer of Protobuf messages to dicts (docs/schemas.md)."""

    types = (PROTOBUF,)
