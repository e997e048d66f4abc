"""Decoders of keys and values from bytes to Python, for single values and for columns.

    decoder = DecoderSettings("registry", "http://localhost:8081").build()
    decoder.decode_many([b"...", None])

`DecoderSettings` hold plain values: settings can be pickled, and built in the process that has the bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast
from uuid import UUID

from odradek.base.errors import ConfigError, OdradekError
from odradek.client.core.serialization import SerializationError
from odradek.client.schemas.avro import AvroDecoder, AvroSchema
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.errors import SchemaError, WireFormatError
from odradek.client.schemas.folder import open_source
from odradek.client.schemas.json_values import decode_json
from odradek.client.schemas.protobuf import ProtobufDecoder, ProtobufSchema
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, TYPES, Schema, SchemaSource, as_schema
from odradek.client.schemas.wire import PREFIX_SIZE, SchemaKey, header_name, read_indexes, read_prefix

Headers = Iterable[tuple[str, bytes | None]]
OnError = Callable[[int, Exception], Any]
"""Function (index, error) -> value for the column."""

_CAPACITY: Final = 1000
KINDS: Final = ("registry", "avro", "json", "protobuf")


class ValueDecoder(Protocol):
    """Decoder for a column of bytes."""

    def decode(self, data: bytes, headers: Headers = ()) -> Any:
        """Return the value. Raises SerializationError."""
        ...

    def decode_many(self, values: Sequence[bytes | bytearray | None], on_error: OnError | None = None) -> list[Any]:
        """Return the values of a column, None for null. Raises the first error, or with `on_error` uses its result as the value."""
        ...


class SchemaReader(Protocol):
    """Reader of the values of one schema."""

    def decode(self, data: bytes, start: int) -> Any:
        """Return the value that begins at `start`; for Protobuf, `start` is the position of its message indexes."""
        ...

    def decode_bare(self, data: bytes, frame: bytes, end: int) -> Any:
        """Return the value that takes all of `data`. Data of the schema (Protobuf's message indexes) begin at `end` of `frame`."""
        ...


class RegistryDecoder:
    """Decoder of values that name their schema (`odradek.client.schemas.wire`), of every type that a registry has.

    Threads may share a decoder. A decoder asks the registry for a schema when a value names a new one; `prepare` asks ahead.
    """

    def __init__(
        self,
        source: SchemaSource,
        *,
        part: str = "value",
        reader_schema: Schema | str | None = None,
        types: Sequence[str] = TYPES,
    ) -> None:
        """Create a decoder for `part` (key or value), whose header may name the schema.

        With a `reader_schema` (Avro) records are returned in that schema. Schemas of another type than `types` are refused.
        """
        self._source = source
        self._header = header_name(part)
        self._types = tuple(types)
        self._reader_schema = None if reader_schema is None else AvroSchema(source, as_schema(reader_schema, AVRO))
        self._readers: Cache[SchemaKey, SchemaReader] = Cache(_CAPACITY)
        self._failed: Cache[SchemaKey, Exception] = Cache(_CAPACITY)
        self._by_prefix: dict[bytes, SchemaReader] = {}

    def decode(self, data: bytes, headers: Headers = ()) -> Any:
        """Return the value. Raises WireFormatError, UndecodableValue, SchemaError (for instance UnknownSchema) or RegistryError."""
        frame = self._frame(data, headers)
        schema, end = read_prefix(frame)
        reader = self._reader(schema)
        return reader.decode(data, end) if frame is data else reader.decode_bare(data, frame, end)

    def decode_many(self, values: Sequence[bytes | bytearray | None], on_error: OnError | None = None) -> list[Any]:
        """Return the values of a column, None for null. Raises the first error, or with `on_error` uses its result as the value."""
        known = self._by_prefix
        output: list[Any] = []
        for index, data in enumerate(values):
            if data is None:
                output.append(None)
                continue
            if type(data) is not bytes:
                data = bytes(data)  # Spark may pass bytearrays.
            try:
                reader = known.get(data[:PREFIX_SIZE])
                output.append(self._first(data) if reader is None else reader.decode(data, PREFIX_SIZE))
            except OdradekError as error:
                if on_error is None:
                    raise
                output.append(on_error(index, error))
        return output

    def is_ready(self, data: bytes, headers: Headers = ()) -> bool:
        """Return whether `decode` would not ask the registry."""
        try:
            schema, _ = read_prefix(self._frame(data, headers))
        except WireFormatError:
            return True
        return self._readers.get(schema) is not None or self._failed.get(schema) is not None

    def prepare(self, data: bytes, headers: Headers = ()) -> bool:
        """Ask for the schema of a value and return whether it can be used. The next `decode` of the schema raises a failure, once."""
        try:
            schema, _ = read_prefix(self._frame(data, headers))
        except WireFormatError:
            return False
        try:
            self._load(schema)
        except Exception as error:
            self._failed.put(schema, error)
            return False
        return True

    def _first(self, data: bytes) -> Any:
        schema, start = read_prefix(data)
        reader = self._reader(schema)
        if start == PREFIX_SIZE:
            if len(self._by_prefix) >= _CAPACITY:
                self._by_prefix.clear()
            self._by_prefix[bytes(data[:PREFIX_SIZE])] = reader
        return reader.decode(data, start)

    def _frame(self, data: bytes, headers: Headers) -> bytes:
        """Return the bytes that name the schema: the header if there is one, else the value itself."""
        for name, content in headers:
            if name == self._header and content is not None:
                return content
        return data

    def _reader(self, schema: SchemaKey) -> SchemaReader:
        found = self._readers.get(schema)
        if found is not None:
            return found
        failure = self._failed.pop(schema)
        if failure is not None:
            raise failure
        return self._load(schema)

    def _load(self, key: SchemaKey) -> SchemaReader:
        schema = self._source.schema_by_guid(key) if isinstance(key, UUID) else self._source.schema(key)
        if schema.type not in self._types:
            raise SchemaError(f"schema {key} has the type {schema.type} instead of {' or '.join(self._types)}")
        return self._readers.put(key, reader_of(schema, self._source, self._reader_schema))


class _PlainReader:
    """Reader of values that follow directly after the schema's id."""

    def __init__(self, decode: Callable[[bytes, int], Any]) -> None:
        self._decode = decode

    def decode(self, data: bytes, start: int) -> Any:
        return self._decode(data, start)

    def decode_bare(self, data: bytes, frame: bytes, end: int) -> Any:
        del frame, end
        return self._decode(data, 0)


class _ProtobufReader:
    """Reader of the messages of one file, by their message indexes."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._decoders: dict[tuple[int, ...], ProtobufDecoder] = {}

    def decode(self, data: bytes, start: int) -> Any:
        indexes, start = read_indexes(data, start)
        return self._decoder(indexes).decode(data, start)

    def decode_bare(self, data: bytes, frame: bytes, end: int) -> Any:
        indexes = read_indexes(frame, end).indexes if end < len(frame) else (0,)
        return self._decoder(indexes).decode(data, 0)

    def _decoder(self, indexes: tuple[int, ...]) -> ProtobufDecoder:
        found = self._decoders.get(indexes)
        if found is None:
            found = self._decoders[indexes] = ProtobufDecoder(self._schema, self._schema.message(indexes))
        return found


def reader_of(schema: Schema, source: SchemaSource, reader_schema: AvroSchema | None = None) -> SchemaReader:
    """Return a reader of the values of a schema. Raises SchemaError for an unknown type."""
    if schema.type == AVRO:
        return _PlainReader(AvroDecoder(AvroSchema(source, schema), reader_schema).decode)
    if schema.type == JSON:
        return _PlainReader(decode_json)
    if schema.type == PROTOBUF:
        return _ProtobufReader(ProtobufSchema(source, schema))
    raise SchemaError(f"{schema.type} is an unknown type of schema; the types are {', '.join(TYPES)}")


class BareDecoder:
    """Decoder of values without the wire format, all of one known schema."""

    def __init__(self, decode: Callable[[bytes, int], Any]) -> None:
        self._decode = decode

    def decode(self, data: bytes, headers: Headers = ()) -> Any:
        """Return the value. Raises UndecodableValue."""
        return self._decode(data, 0)

    def decode_many(self, values: Sequence[bytes | bytearray | None], on_error: OnError | None = None) -> list[Any]:
        """Return the values of a column, None for null. Raises the first error, or with `on_error` uses its result as the value."""
        decode = self._decode
        output: list[Any] = []
        for index, data in enumerate(values):
            try:
                output.append(None if data is None else decode(data if type(data) is bytes else bytes(data), 0))
            except SerializationError as error:
                if on_error is None:
                    raise
                output.append(on_error(index, error))
        return output


class DecoderSettings(NamedTuple):
    """Settings of a decoder, in plain values."""

    kind: str = "registry"
    """Kind of decoder.

    - `registry`: values that name their schema.
    - `avro`, `protobuf`: values that name a schema of that type, or with `schema` bare values of that schema.
    - `json`: plain JSON, or with `registry` JSON after the id of a schema.
    """
    registry: str | None = None
    """URL of a registry, or path of a folder of schemas."""
    registry_settings: tuple[tuple[str, str], ...] = ()
    """Other configuration keys of `SchemaRegistry`."""
    part: str = "value"
    """Part of the record: key or value."""
    schema: str | None = None
    """Text of the schema of bare values; for Protobuf a descriptor in base64. `@FILE` reads it from a file."""
    message: str | None = None
    """Message of bare Protobuf values; by default the first of the schema."""
    reader_schema: str | None = None
    """Avro schema in which to return values; `@FILE` reads it from a file."""

    def build(self) -> ValueDecoder:
        """Return the decoder. Raises ConfigError for contradictory settings, SchemaError, and OdradekError for a missing library."""
        if self.kind not in KINDS:
            raise ConfigError(f"{self.kind} is an unknown kind of decoder; the kinds are {', '.join(KINDS)}")
        if self.message is not None and (self.kind != "protobuf" or self.schema is None):
            raise ConfigError("a message can be named only for bare values of Protobuf, with their schema")
        if self.reader_schema is not None and self.kind not in ("avro", "registry"):
            raise ConfigError(f"a reader's schema can be given only for Avro, not for {self.kind}")
        if self.schema is not None and self.kind not in ("avro", "protobuf"):
            raise ConfigError(f"a schema can be given only for bare values of avro or protobuf, not for {self.kind}")
        if self.registry is None and self.registry_settings:
            raise ConfigError(f"Configuration {self.registry_settings[0][0]} has no effect without a schema registry")
        source = None if self.registry is None else shared_source(self.registry, dict(self.registry_settings))
        if self.schema is not None:
            return self._bare(source, self.schema)
        if source is not None:
            types = TYPES if self.kind == "registry" else (self.kind.upper(),)
            return RegistryDecoder(source, part=self.part, reader_schema=_text(self.reader_schema), types=types)
        if self.kind == "json":
            return BareDecoder(decode_json)
        raise ConfigError(f"values of {self.kind} name their schema: give a schema registry, or a folder of schemas")

    def _bare(self, source: SchemaSource | None, given: str) -> BareDecoder:
        if self.kind == "avro":
            reader = None if self.reader_schema is None else AvroSchema(source, Schema(_text(self.reader_schema) or "", AVRO))
            return BareDecoder(AvroDecoder(AvroSchema(source, Schema(_text(given) or "", AVRO)), reader).decode)
        schema = ProtobufSchema(source, Schema(b64encode(_file(given)).decode() if given.startswith("@") else given, PROTOBUF))
        return BareDecoder(ProtobufDecoder(schema, schema.message((0,)) if self.message is None else schema.named(self.message)).decode)


@lru_cache(maxsize=16)
def _shared_source(place: str, settings: tuple[tuple[str, str], ...]) -> SchemaSource:
    return cast(SchemaSource, open_source(place, dict(settings)))


def shared_source(place: str, settings: Mapping[str, str] | None = None) -> SchemaSource:
    """Return the registry or folder at `place`. Callers of this process with the same arguments share it. Raises ConfigError."""
    return _shared_source(place, tuple(sorted((settings or {}).items())))


def _text(given: str | None) -> str | None:
    try:
        return _file(given).decode() if given is not None and given.startswith("@") else given
    except UnicodeDecodeError:
        raise ConfigError(f"{given}: the file is not UTF-8 text") from None


def _file(given: str) -> bytes:
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise ConfigError(f"{given}: {error.strerror}") from None
