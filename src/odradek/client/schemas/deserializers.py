"""Deserializers of values that name their schema, for the consumers of both kinds.

    Consumer(bootstrap_servers="localhost:9092", value_deserializer=SchemaDeserializer(SchemaRegistry("http://localhost:8081")))

A schema that is not known yet is asked for in the event loop's default executor, before its records are handed out: never in an event loop.
All may be shared by threads and consumers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.client.schemas.decoding import Headers, RegistryDecoder
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, TYPES, Schema, SchemaSource


class SchemaDeserializer:
    """Reads values of whatever type their schema is."""

    types: Sequence[str] = TYPES

    def __init__(self, registry: SchemaSource, *, reader_schema: Schema | str | None = None) -> None:
        """With a `reader_schema` Avro records come as that has them. SchemaError; OdradekError without fastavro for a reader's schema."""
        # Which header may name a schema depends on the part.
        self._decoders = {
            part: RegistryDecoder(registry, part=part, reader_schema=reader_schema, types=self.types) for part in ("key", "value")
        }

    def deserialize(self, topic: str, part: str, data: bytes, headers: Headers) -> Any:
        """The key or value; WireFormatError, UndecodableValue, SchemaError, RegistryError."""
        return self._decoders[part].decode(data, headers)

    def is_ready(self, part: str, data: bytes, headers: Headers) -> bool:
        """Whether `deserialize` would ask nobody."""
        return self._decoders[part].is_ready(data, headers)

    def prepare(self, part: str, data: bytes, headers: Headers) -> bool:
        """Asks for the schema of a key or value; False for a failure, which is raised by the next `deserialize` of that schema."""
        return self._decoders[part].prepare(data, headers)


class AvroDeserializer(SchemaDeserializer):
    """Reads Avro; a schema of another type is an error."""

    types = (AVRO,)


class JsonDeserializer(SchemaDeserializer):
    """Reads JSON behind the id of a JSON schema; values are not checked against it."""

    types = (JSON,)


class ProtobufDeserializer(SchemaDeserializer):
    """Reads Protobuf messages as dicts (docs/schemas.md)."""

    types = (PROTOBUF,)
