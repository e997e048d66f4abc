"""Serializers that name the schema of what they write, as Confluent's do, for both producers.

    Producer(bootstrap_servers="localhost:9092", value_serializer=AvroSerializer(SchemaRegistry("http://localhost:8081"), schema))

A serializer asks the registry once per subject; with use.latest.version again after latest.cache.ttl.sec. The blocking producer asks in the
thread that calls `send`. The asyncio producer asks in the event loop's default executor, never in an event loop. Threads and producers may
share a serializer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from odradek.client.core.serialization import HeaderList
from odradek.client.schemas.avro import AvroSchema, record_name
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.config import serializer_settings
from odradek.client.schemas.errors import SchemaError, UnencodableValue
from odradek.client.schemas.json_values import encode_json
from odradek.client.schemas.protobuf import ProtobufSchema, encode_message, indexes_of, is_well_known, schema_of
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, RegisteredSchema, Schema, SchemaReference, SchemaSource, as_schema
from odradek.client.schemas.wire import header_name, write_prefix

_SUBJECTS = 1000
_AHEAD_S = 0.1
"""Seconds between `is_ready` in the event loop and `serialize`, at most. The latest version must not expire in between."""


class _Ready(NamedTuple):
    """Prefix, encoder and schema for the values of one subject."""

    frame: bytes
    encoder: Any
    """Object that `_encode` uses for the values."""
    schema: RegisteredSchema


class _Serializer:
    """Base class of the serializers: subjects, and the prefix of values."""

    type: str

    def __init__(
        self, source: SchemaSource, schema: Schema | None, settings: Mapping[str, Any] | None, keywords: Mapping[str, Any]
    ) -> None:
        self._source = source
        self._schema = schema
        self._settings = serializer_settings(settings, keywords)
        self._subjects: Cache[str, _Ready] = Cache(_SUBJECTS)

    def is_ready(self, topic: str, part: str, content: Any) -> bool:
        """Return whether `serialize` would not ask the registry."""
        return self._known(self._subject(topic, part), _AHEAD_S) is not None

    def serialize(self, topic: str, part: str, content: Any, headers: HeaderList) -> bytes:
        """Return the bytes of a key or value (`part`). A GUID that goes into a header is added to `headers`.

        Raises UnencodableValue for a value that does not fit, SchemaError, and the registry's UnknownSchema and RegistryError.
        """
        subject = self._subject(topic, part)
        ready = self._known(subject) or self._subjects.put(subject, self._made_ready(subject))
        data = self._encode(ready.encoder, content)
        if not self._settings.in_header:
            return ready.frame + data
        name = header_name(part)
        headers[:] = [header for header in headers if header[0] != name] + [(name, ready.frame)]
        return data

    def _subject(self, topic: str, part: str) -> str:
        return self._settings.subject(topic, part, self._record_name())

    def _known(self, subject: str, ahead_s: float = 0.0) -> _Ready | None:
        """Return how to write values of `subject`, or None when the source has to be asked.

        The source caches which version is the latest.
        """
        ready = self._subjects.get(subject)
        if ready is None or not self._settings.use_latest:
            return ready
        latest = self._source.remembered_latest(subject, ahead_s)
        return ready if latest is not None and latest == ready.schema else None

    def _made_ready(self, subject: str) -> _Ready:
        settings = self._settings
        if settings.schema_id is not None:
            found = RegisteredSchema(settings.schema_id, self._source.schema(settings.schema_id), subject)
        elif settings.use_latest:
            found = self._source.latest(subject)
        else:
            assert self._schema is not None
            schema = self._registrable(self._schema)
            ask = self._source.register if settings.auto_register else self._source.lookup
            found = ask(subject, schema, normalize=settings.normalize)._replace(schema=schema)
        if found.schema.type != self.type:
            raise SchemaError(f"subject {subject} has a schema of type {found.schema.type} instead of {self.type}")
        encoder, indexes = self._encoder(found.schema)
        key: int | UUID | None = found.guid if settings.in_header else found.schema_id
        if key is None:
            what = "GUID: schema.id.location=header needs a registry with GUIDs" if settings.in_header else "id"
            raise SchemaError(f"the schema of subject {subject} has no {what}")
        return _Ready(write_prefix(key, indexes), encoder, found)

    def _needs_schema(self) -> None:
        if self._schema is None and not self._settings.use_latest and self._settings.schema_id is None:
            raise SchemaError("give a schema, or use.latest.version=true, or use.schema.id")

    def _registrable(self, schema: Schema) -> Schema:
        return schema

    def _record_name(self) -> str | None:
        raise NotImplementedError

    def _encoder(self, schema: Schema) -> tuple[Any, tuple[int, ...] | None]:
        raise NotImplementedError

    def _encode(self, encoder: Any, content: Any) -> bytes:
        raise NotImplementedError


class AvroSerializer(_Serializer):
    """Serializer of dicts (and other values of Avro) by an Avro schema."""

    type = AVRO

    def __init__(
        self,
        registry: SchemaSource,
        schema: Schema | str | dict[str, Any] | list[Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: Any,
    ) -> None:
        """Create a serializer. `schema` is optional with use.latest.version or use.schema.id.

        Keys (`SERIALIZER_KEYS`) as in Kafka or with underscores. Raises ConfigError, SchemaError, and OdradekError without fastavro.
        """
        given = None if schema is None else as_schema(schema, AVRO)
        super().__init__(registry, given, settings, keywords)
        self._needs_schema()
        # A schema with references is parsed later, when the registry is asked.
        self._own = None if given is None or given.references else AvroSchema(None, given)
        self._name = None if given is None else record_name(given)

    def _record_name(self) -> str | None:
        return self._name

    def _encoder(self, schema: Schema) -> tuple[Any, tuple[int, ...] | None]:
        return (self._own if self._own is not None and schema == self._own.schema else AvroSchema(self._source, schema)), None

    def _encode(self, encoder: AvroSchema, content: Any) -> bytes:
        return encoder.encode(content)


class JsonSerializer(_Serializer):
    """Serializer of values as JSON after the id of a JSON schema. Values are not validated against the schema."""

    type = JSON

    def __init__(
        self,
        registry: SchemaSource,
        schema: Schema | str | dict[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: Any,
    ) -> None:
        """Create a serializer, as `AvroSerializer`. The schema's `title` is the name of the record."""
        super().__init__(registry, None if schema is None else as_schema(schema, JSON), settings, keywords)
        self._needs_schema()
        self._title = None if self._schema is None else _title(self._schema)

    def _record_name(self) -> str | None:
        return self._title

    def _encoder(self, schema: Schema) -> tuple[Any, tuple[int, ...] | None]:
        return None, None

    def _encode(self, encoder: None, content: Any) -> bytes:
        return encode_json(content)


class ProtobufSerializer(_Serializer):
    """Serializer of Protobuf messages, given as messages or as dicts (docs/schemas.md)."""

    type = PROTOBUF

    def __init__(
        self,
        registry: SchemaSource,
        message: Any,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        schema: Schema | None = None,
        **keywords: Any,
    ) -> None:
        """Create a serializer. `message` is a generated class, or the name of a message in `schema`.

        With a name, use.latest.version or use.schema.id may take the place of `schema`. Imports are registered first, each under its own
        name. Raises ConfigError, SchemaError, and OdradekError without protobuf.
        """
        self._descriptor: Any = None
        if isinstance(message, str):
            self._message = message
        else:
            self._descriptor = getattr(message, "DESCRIPTOR", None)
            if getattr(self._descriptor, "containing_type", self) is self:
                raise SchemaError(f"{message!r} is neither a class of messages nor the name of a message")
            if schema is not None:
                raise SchemaError("a class of messages has a schema: do not give another one")
            self._message = str(self._descriptor.full_name)
            schema = schema_of(self._descriptor)
        super().__init__(registry, None if schema is None else as_schema(schema, PROTOBUF), settings, keywords)
        self._needs_schema()

    def _registrable(self, schema: Schema) -> Schema:
        if self._descriptor is None:
            return schema
        return schema._replace(references=tuple(self._imports(self._descriptor.file)))

    def _imports(self, file: Any) -> list[SchemaReference]:
        found: list[SchemaReference] = []
        for imported in file.dependencies:
            if is_well_known(imported.name):
                continue
            schema = Schema(_serialized(imported), PROTOBUF, tuple(self._imports(imported)))
            ask = self._source.register if self._settings.auto_register else self._source.lookup
            registered = ask(imported.name, schema, normalize=self._settings.normalize)
            if registered.version is None:
                raise SchemaError(f"the registry's response does not contain the version of the schema {imported.name}")
            found.append(SchemaReference(imported.name, imported.name, registered.version))
        return found

    def _record_name(self) -> str | None:
        return self._message

    def _encoder(self, schema: Schema) -> tuple[Any, tuple[int, ...] | None]:
        parsed = ProtobufSchema(self._source, schema)
        descriptor = parsed.named(self._message)
        return (parsed, descriptor), indexes_of(descriptor)

    def _encode(self, encoder: tuple[ProtobufSchema, Any], content: Any) -> bytes:
        return encode_message(*encoder, content)


def _serialized(file: Any) -> str:
    from base64 import b64encode

    return b64encode(file.serialized_pb).decode()


def _title(schema: Schema) -> str | None:
    from odradek.client.schemas.types import parsed_json

    parsed = parsed_json(schema)
    title = parsed.get("title") if isinstance(parsed, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return title if isinstance(title, str) else None


__all__ = ["AvroSerializer", "JsonSerializer", "ProtobufSerializer", "UnencodableValue"]
