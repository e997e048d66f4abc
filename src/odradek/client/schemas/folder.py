"""Folder of schemas, used in the place of a registry.

    7.avsc                      the schema with id 7
    orders-value-v2.avsc        version 2 of the subject orders-value
    7.orders-value-v2.avsc      both
    7.references.json           references of 7.avsc: [{"name": "...", "subject": "...", "version": 1}]

`.avsc` is Avro, `.json` a JSON schema, `.desc` and `.binpb` are Protobuf. A Protobuf file is a FileDescriptorProto, or a FileDescriptorSet
(`protoc --include_imports --descriptor_set_out=7.desc`) whose last file is the schema.

Characters of a subject that a file name cannot contain are percent-encoded, and so is a dot after leading digits.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from odradek.base.errors import ConfigError
from odradek.client.schemas.errors import RegistryError, SchemaError, UnknownSchema
from odradek.client.schemas.types import AVRO, JSON, PROTOBUF, RegisteredSchema, Schema, references_of

_TYPES: Final = {".avsc": AVRO, ".json": JSON, ".desc": PROTOBUF, ".binpb": PROTOBUF}
_NAME: Final = re.compile(r"(?:(?P<id>[0-9]{1,10})\.)?(?P<subject>.+)-v(?P<version>[0-9]{1,10})|(?P<only>[0-9]{1,10})")
_MAX_SIZE: Final = 4 << 20
_SAME_TIME_NS: Final = 50_000_000
"""Nanoseconds within which two changes may have the same time: file systems count time in steps of some milliseconds."""


class _Entry(NamedTuple):
    path: Path
    schema_id: int | None
    subject: str | None
    version: int | None


class SchemaFolder:
    """Schemas of a folder. New files are found; a file that was read is not read again.

    Threads may share a folder. A folder may be pickled.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the folder. Raises ConfigError if it is not a folder."""
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"{folder} is not a folder")
        self._read: dict[Path, Schema] = {}
        self._latest: dict[str, tuple[int, RegisteredSchema]] = {}

    def __reduce__(self) -> tuple[Callable[..., SchemaFolder], tuple[str]]:
        return SchemaFolder, (str(self.folder),)

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id."""
        return self._schema(self._only([each for each in self._entries() if each.schema_id == schema_id], f"a schema with id {schema_id}"))

    def schema_by_guid(self, guid: UUID) -> Schema:
        """Raise UnknownSchema: files do not have GUIDs."""
        raise UnknownSchema(f"the folder {self.folder} does not have a schema with GUID {guid}: its files are named by ids")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""
        found = [each for each in self._entries() if each.subject == subject and each.version == version]
        return self._registered(self._only(found, f"version {version} of subject {subject}"))

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the version of a subject with the highest number."""
        listed_at, changed_at = time.time_ns(), self._changed_at()
        found = [each for each in self._entries() if each.subject == subject]
        highest = max((each.version or 0 for each in found), default=0)
        latest = self._registered(self._only([each for each in found if each.version == highest], f"subject {subject}"))
        if listed_at - changed_at > _SAME_TIME_NS:
            self._latest[subject] = (changed_at, latest)
        return latest

    def remembered_latest(self, subject: str, ahead_s: float = 0.0) -> RegisteredSchema | None:
        """Return the last result of `latest` if no file has been added or removed since, else None."""
        del ahead_s
        found = self._latest.get(subject)
        return found[1] if found is not None and found[0] == self._changed_at() else None

    def _changed_at(self) -> int:
        """Return the folder's modification time in nanoseconds, 0 for a missing folder."""
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema as `lookup` does. Raises RegistryError for a missing schema, as a folder is never written."""
        try:
            return self.lookup(subject, schema, normalize=normalize)
        except UnknownSchema as error:
            raise RegistryError(f"{error}; new schemas cannot be registered in a folder: create a file ID.{subject}-vN there") from None

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return a subject's newest version with this text, or (Avro and JSON) with equal JSON. Raises UnknownSchema."""
        del normalize
        entries = [each for each in self._entries() if each.subject == subject]
        for entry in sorted(entries, key=lambda each: each.version or 0, reverse=True):
            if _same(self._schema(entry), schema):
                return self._registered(entry)
        raise UnknownSchema(f"the folder {self.folder} does not have this schema under subject {subject}")

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""
        return sorted({each.subject for each in self._entries() if each.subject is not None})

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, sorted."""
        return sorted({each.version for each in self._entries() if each.subject == subject and each.version is not None})

    def close(self) -> None:
        """Do nothing: a folder keeps no file open."""

    def _entries(self) -> list[_Entry]:
        found: list[_Entry] = []
        try:
            paths = sorted(self.folder.iterdir())
        except OSError as error:
            raise RegistryError(f"the folder {self.folder} cannot be read: {error.strerror}") from None
        for path in paths:
            named = _NAME.fullmatch(path.stem) if path.suffix in _TYPES else None
            if named is None:
                continue
            schema_id, subject, version = named["id"] or named["only"], named["subject"], named["version"]
            found.append(
                _Entry(
                    path,
                    None if schema_id is None else int(schema_id),
                    None if subject is None else unquote(subject),
                    None if version is None else int(version),
                )
            )
        return found

    def _only(self, found: list[_Entry], what: str) -> _Entry:
        if not found:
            raise UnknownSchema(f"the folder {self.folder} does not have {what}")
        if len(found) > 1:
            raise SchemaError(f"the folder {self.folder} has {what} twice: {', '.join(each.path.name for each in found)}")
        return found[0]

    def _registered(self, entry: _Entry) -> RegisteredSchema:
        return RegisteredSchema(entry.schema_id, self._schema(entry), str(entry.subject), entry.version)

    def _schema(self, entry: _Entry) -> Schema:
        path = entry.path
        known = self._read.get(path)
        if known is not None:
            return known
        raw = _content(path)
        type = _TYPES[path.suffix]
        try:
            text = b64encode(raw).decode() if type == PROTOBUF else raw.decode()
        except UnicodeDecodeError:
            raise SchemaError(f"{path} is not UTF-8 text") from None
        beside = path.with_name(f"{path.stem}.references.json")
        references = references_of(_json(beside)) if beside.exists() else ()
        return self._read.setdefault(path, Schema(text, type, references))


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_SIZE:
            raise SchemaError(f"{path} is too large for a schema: the limit is {_MAX_SIZE} bytes")
        return path.read_bytes()
    except OSError as error:
        raise RegistryError(f"{path} cannot be read: {error.strerror}") from None


def _json(path: Path) -> list[Any]:
    try:
        found: Any = json.loads(_content(path))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise SchemaError(f"{path} must be a list of references in JSON")
    return found  # pyright: ignore[reportUnknownVariableType]


def _same(one: Schema, other: Schema) -> bool:
    if one.type != other.type:
        return False
    if one.text == other.text:
        return True
    try:
        return one.type != PROTOBUF and bool(json.loads(one.text) == json.loads(other.text))
    except (ValueError, RecursionError):
        return False


def open_source(place: str | Path, settings: dict[str, Any] | None = None) -> Any:
    """Return a `SchemaRegistry` for a URL, else a `SchemaFolder`. Raises ConfigError."""
    from odradek.client.schemas.registry import SchemaRegistry

    if isinstance(place, str) and place.startswith(("http://", "https://")):
        return SchemaRegistry({**(settings or {}), "schema.registry.url": place})
    if settings:
        raise ConfigError(f"Configuration {next(iter(settings))} has no effect with a folder of schemas")
    return SchemaFolder(place)
