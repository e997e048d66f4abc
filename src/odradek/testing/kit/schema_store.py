"""Store of a schema registry: ids, subjects, versions. The rules are Confluent's, without a check of compatibility."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple
from uuid import UUID


class StoreError(Exception):
    """Refused request: HTTP status, the registry's error code, and message."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class StoredSchema(NamedTuple):
    """Schema as registered; two schemas are the same when all three fields are equal."""

    text: str
    type: str
    references: tuple[tuple[str, str, int], ...]

    @property
    def guid(self) -> UUID:
        """Schema's GUID, which is the same in every registry."""
        return UUID(bytes=hashlib.md5(repr(tuple(self)).encode(), usedforsecurity=False).digest())


class SchemaStore:
    """Schemas in memory. Only one thread may use the store at a time."""

    def __init__(self) -> None:
        self._schemas: list[StoredSchema] = []
        self._subjects: dict[str, list[int | None]] = {}

    def register(self, subject: str, body: Any) -> dict[str, Any]:
        """POST /subjects/SUBJECT/versions: register a schema. Raises StoreError for an invalid schema."""
        schema = _read(body)
        for name, other, version in schema.references:
            try:
                self.version(other, version)
            except StoreError:
                raise StoreError(422, 42201, f"Invalid schema: no schema reference found for {name}, {other}, {version}") from None
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return self._entry(subject, versions.index(schema_id) + 1)

    def lookup(self, subject: str, body: Any) -> dict[str, Any]:
        """POST /subjects/SUBJECT: return the entry of a schema. Raises StoreError when the subject does not have the schema."""
        schema = _read(body)
        versions = self._versions(subject)
        schema_id = self._schemas.index(schema) + 1 if schema in self._schemas else 0
        if schema_id not in versions:
            raise StoreError(404, 40403, "Schema not found")
        return self._entry(subject, versions.index(schema_id) + 1)

    def by_id(self, schema_id: int) -> dict[str, Any]:
        """GET /schemas/ids/ID: return a schema. Raises StoreError for an unknown id."""
        if not 1 <= schema_id <= len(self._schemas):
            raise StoreError(404, 40403, f"Schema {schema_id} not found")
        return _written(self._schemas[schema_id - 1])

    def by_guid(self, guid: str) -> dict[str, Any]:
        """GET /schemas/guids/GUID: return a schema. Raises StoreError for an unknown GUID."""
        found = next((each for each in self._schemas if str(each.guid) == guid), None)
        if found is None:
            raise StoreError(404, 40403, f"Schema {guid} not found")
        return _written(found)

    def places(self, schema_id: int) -> list[dict[str, Any]]:
        """GET /schemas/ids/ID/versions: return the subjects and versions that have the schema. Raises StoreError for an unknown id."""
        self.by_id(schema_id)
        return [
            {"subject": subject, "version": index}
            for subject, versions in self._subjects.items()
            for index, each in enumerate(versions, 1)
            if each == schema_id
        ]

    def subjects(self) -> list[str]:
        """GET /subjects: return the names of subjects, sorted."""
        return sorted(subject for subject, versions in self._subjects.items() if any(versions))

    def versions(self, subject: str) -> list[int]:
        """GET /subjects/SUBJECT/versions: return version numbers. Raises StoreError for an unknown subject."""
        return [index for index, each in enumerate(self._versions(subject), 1) if each is not None]

    def version(self, subject: str, version: int | str) -> dict[str, Any]:
        """GET /subjects/SUBJECT/versions/VERSION: return an entry; VERSION may be "latest". Raises StoreError for an unknown version."""
        there = self.versions(subject)
        if version in ("latest", "-1"):
            return self._entry(subject, there[-1])
        try:
            number = int(version)
        except ValueError:
            raise StoreError(422, 42202, f"The specified version '{version}' is not a valid version id") from None
        if number not in there:
            raise StoreError(404, 40402, f"Version {number} not found.")
        return self._entry(subject, number)

    def delete(self, subject: str, version: int | str | None = None) -> list[int]:
        """DELETE /subjects/SUBJECT or /subjects/SUBJECT/versions/VERSION: return the deleted versions. Schemas keep their ids."""
        gone = self.versions(subject) if version is None else [self.version(subject, version)["version"]]
        for each in gone:
            self._subjects[subject][each - 1] = None
        return gone

    def _versions(self, subject: str) -> list[int | None]:
        versions = self._subjects.get(subject, [])
        if not any(versions):
            raise StoreError(404, 40401, f"Subject '{subject}' not found.")
        return versions

    def _entry(self, subject: str, version: int) -> dict[str, Any]:
        schema_id = self._subjects[subject][version - 1]
        assert schema_id is not None
        schema = self._schemas[schema_id - 1]
        return {"subject": subject, "version": version, "id": schema_id, "guid": str(schema.guid), **_written(schema)}


def _written(schema: StoredSchema) -> dict[str, Any]:
    written: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
    if schema.references:
        written["references"] = [{"name": name, "subject": subject, "version": version} for name, subject, version in schema.references]
    return written


def _read(body: Any) -> StoredSchema:
    try:
        text: Any = body["schema"]
        type: Any = body.get("schemaType") or "AVRO"
        given: list[Any] = body.get("references") or []
        references = tuple((str(each["name"]), str(each["subject"]), int(each["version"])) for each in given)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StoreError(422, 42201, "Invalid schema: the body is not a schema") from None
    if type not in ("AVRO", "JSON", "PROTOBUF") or not isinstance(text, str) or not text:
        raise StoreError(422, 42201, f"Invalid schema of type {type}")
    if type != "PROTOBUF":
        try:
            # White space does not make a different schema.
            text = json.dumps(json.loads(text), separators=(",", ":"))
        except (ValueError, RecursionError):
            raise StoreError(422, 42201, "Invalid schema: it is not JSON") from None
    return StoredSchema(text, type, references)
