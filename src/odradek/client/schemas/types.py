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
    """Another schema that one uses: `name` is a named type of Avro, the import of Protobuf, the URL of a JSON schema."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema. `text` is JSON for Avro and JSON. For Protobuf it is a FileDescriptorProto, or a FileDescriptorSet whose last file counts,
    in base64.
    """

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()


class RegisteredSchema(NamedTuple):
    """A schema with its id, and where it stands. None: its keeper does not say. Older registries have no GUIDs, a file may have no id."""

    schema_id: int | None
    schema: Schema
    subject: str
    version: int | None = None
    guid: UUID | None = None


class SchemaSource(Protocol):
    """Who has schemas: `SchemaRegistry`, `SchemaFolder`. Blocking, and for all threads.

    UnknownSchema for what is not there, RegistryError when it cannot be asked.
    """

    def schema(self, schema_id: int) -> Schema:
        """The schema with an id."""
        ...

    def schema_by_guid(self, guid: UUID) -> Schema:
        """The schema with a GUID."""
        ...

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """A version of a subject."""
        ...

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject."""
        ...

    def remembered_latest(self, subject: str, ahead_s: float = 0.0) -> RegisteredSchema | None:
        """Return the latest version of a subject without asking, if it still counts as the latest in `ahead_s` seconds, else None."""
        ...

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema under a subject, where it becomes a new version if it is not one yet."""
        ...

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema as it stands under a subject."""
        ...

    def close(self) -> None:
        """Ends its connections."""
        ...


def as_schema(given: Schema | str | dict[str, Any] | list[Any], type: str) -> Schema:
    """What a user gives for a schema; SchemaError for one of another type, or for what is no JSON."""
    if isinstance(given, Schema):
        if given.type != type:
            raise SchemaError(f"this is a schema of {given.type}, not of {type}")
        return given
    if not isinstance(given, str):
        return Schema(json.dumps(given), type)
    return Schema(given, type)


def parsed_json(schema: Schema) -> Any:
    """The text as JSON; SchemaError."""
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the {schema.type} schema is no JSON: {error}") from None


def references_of(entries: Sequence[Any]) -> tuple[SchemaReference, ...]:
    """References as JSON has them; SchemaError."""
    try:
        return tuple(SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in entries)
    except (KeyError, TypeError, ValueError):
        raise SchemaError("a reference has a name, a subject and a version") from None
