"""Schemas as a registry knows them (the classes of its REST API)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from odradek.client.schemas.errors import SchemaError

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (AVRO, JSON, PROTOBUF)


class SchemaReference(NamedTuple):
    """Reference to another schema: `name` is a named type of Avro, the import of Protobuf, the URL of a JSON schema."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """Schema of any type. `text` is JSON for Avro and JSON.

    For Protobuf `text` is base64 of a FileDescriptorProto, or of a FileDescriptorSet whose last file is the schema.
    """

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()


class RegisteredSchema(NamedTuple):
    """Schema with its id, subject and version.

    A field that the source does not report has the value None: older registries do not have GUIDs, a file may not have an id.
    """

    schema_id: int | None
    schema: Schema
    subject: str
    version: int | None = None
    guid: UUID | None = None


class SchemaSource(Protocol):
    """Source of schemas: `SchemaRegistry` or `SchemaFolder`. Blocking; threads may share a source.

    Methods raise UnknownSchema for a missing schema, RegistryError when the source cannot be read.
    """

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id."""
        ...

    def schema_by_guid(self, guid: UUID) -> Schema:
        """Return the schema with a GUID."""
        ...

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""
        ...

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject."""
        ...

    def remembered_latest(self, subject: str, ahead_s: float = 0.0) -> RegisteredSchema | None:
        """Return the cached latest version of a subject, if it stays valid for `ahead_s` more seconds, else None. Sends no request."""
        ...

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema under a subject, after adding it as a new version if it is missing."""
        ...

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema with its id and version under a subject."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def as_schema(given: Schema | str | dict[str, Any] | list[Any], type: str) -> Schema:
    """Return the schema that a user has passed in any form. Raises SchemaError for a schema of another type."""
    if isinstance(given, Schema):
        if given.type != type:
            raise SchemaError(f"the schema has the type {given.type} instead of {type}")
        return given
    if not isinstance(given, str):
        return Schema(json.dumps(given), type)
    return Schema(given, type)


def parsed_json(schema: Schema) -> Any:
    """Return the parsed text. Raises SchemaError for invalid JSON."""
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the {schema.type} schema is not JSON: {error}") from None


def references_of(entries: Sequence[Any]) -> tuple[SchemaReference, ...]:
    """Return references from their JSON. Raises SchemaError."""
    try:
        return tuple(SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in entries)
    except (KeyError, TypeError, ValueError):
        raise SchemaError("a reference needs a name, a subject and a version") from None
