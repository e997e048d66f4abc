"""A schema registry over HTTP: Confluent's REST API, which others speak as well."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

from odradek.client.config import Setting
from odradek.client.forks import renew_after_fork
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.config import registry_config
from odradek.client.schemas.errors import RegistryError, UnknownSchema
from odradek.client.schemas.rest import Rest, quoted
from odradek.client.schemas.types import AVRO, PROTOBUF, RegisteredSchema, Schema, references_of
from odradek.client.schemas.wire import SchemaKey


class SchemaRegistry:
    """Schemas of a registry, remembered once they have been asked for. Blocking; may be shared by threads and used in a forked child, on
    connections of its own; may be pickled: the copy asks again.

    UnknownSchema for what the registry does not have, RegistryError when it cannot be asked or refuses.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """Monotonic seconds; tests set another."""

    def __init__(self, config: Mapping[str, Setting] | str | None = None, /, **settings: Setting) -> None:
        """Keys as Confluent names them in `config`, or as keyword arguments with underscores; text stands for `schema.registry.url`.

        Nothing is asked yet. ConfigError names a key that does not fit.
        """
        self._given: dict[str, Setting] = {"url": config} if isinstance(config, str) else dict(config or {})
        self._given |= {name.replace("_", "."): value for name, value in settings.items()}
        parsed = registry_config(self._given, {})
        self._rest = Rest(parsed)
        capacity = parsed.integer("cache.capacity")
        self._missing_s = parsed.integer("missing.id.cache.ttl.sec")
        self._missing: Cache[SchemaKey, tuple[float, str]] = Cache(capacity)
        self._latest_s = parsed.integer("latest.cache.ttl.sec")
        self._ids: Cache[int, Schema] = Cache(capacity)
        self._guids: Cache[UUID, Schema] = Cache(capacity)
        self._versions: Cache[tuple[str, int], RegisteredSchema] = Cache(capacity)
        self._latest: Cache[str, tuple[float, RegisteredSchema]] = Cache(capacity)
        self._registered: Cache[tuple[str, Schema, bool, bool], RegisteredSchema] = Cache(capacity)
        self._asking = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held while it asked."""
        self._asking = threading.Lock()

    def __reduce__(self) -> tuple[Callable[..., SchemaRegistry], tuple[dict[str, Setting]]]:
        return SchemaRegistry, (self._given,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it is, without name and password."""
        return self._rest.urls

    def schema(self, schema_id: int) -> Schema:
        """The schema with an id."""
        return self._ids.get(schema_id) or self._once(
            lambda: self._ids.get(schema_id),
            lambda: self._ids.put(schema_id, self._unless_missing(schema_id, f"/schemas/ids/{schema_id}", f"a schema with id {schema_id}")),
        )

    def schema_by_guid(self, guid: UUID) -> Schema:
        """The schema with a GUID; a registry that has none does not know it."""
        return self._guids.get(guid) or self._once(
            lambda: self._guids.get(guid),
            lambda: self._guids.put(guid, self._unless_missing(guid, f"/schemas/guids/{guid}", f"a schema with GUID {guid}")),
        )

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """A version of a subject."""
        key = (subject, version)
        return self._versions.get(key) or self._once(
            lambda: self._versions.get(key), lambda: self._versions.put(key, self._version(subject, str(version)))
        )

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject, as it was latest.cache.ttl.sec ago at most."""

        def ask() -> RegisteredSchema:
            asked_at = self.clock()
            return self._latest.put(subject, (asked_at, self._version(subject, "latest")))[1]

        return self.remembered_latest(subject) or self._once(lambda: self.remembered_latest(subject), ask)

    def remembered_latest(self, subject: str, ahead_s: float = 0.0) -> RegisteredSchema | None:
        """Return the latest version without asking, if latest.cache.ttl.sec is not over in `ahead_s` seconds, else None."""
        found = self._latest.get(subject)
        if found is None or 0 <= self._latest_s <= self.clock() + ahead_s - found[0]:
            return None
        return found[1]

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema under a subject, where it becomes a new version if it is not one yet; RegistryError (409) for an incompatible one."""

        def ask() -> RegisteredSchema:
            answer = self._ask("POST", f"/subjects/{quoted(subject)}/versions", f"subject {subject}", _flags(normalize), _body(schema))
            self._latest.clear()
            found = _registered(answer, subject, schema)
            if found.guid is None or found.version is None:
                # Older registries answer with the id alone.
                return self._lookup(subject, schema, normalize)
            return found

        return self._remembered((subject, schema, normalize, True), ask)

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema as it stands under a subject."""
        return self._remembered((subject, schema, normalize, False), lambda: self._lookup(subject, schema, normalize))

    def subjects(self) -> list[str]:
        """The names of all subjects; asked anew each time."""
        return [str(name) for name in _list(self._ask("GET", "/subjects", "subjects"))]

    def versions(self, subject: str) -> list[int]:
        """The versions that a subject has; asked anew each time."""
        return [int(each) for each in _list(self._ask("GET", f"/subjects/{quoted(subject)}/versions", f"subject {subject}"))]

    def close(self) -> None:
        """Closes its connections; what is asked after that is asked on new ones."""
        self._rest.close()

    def _remembered(self, key: tuple[str, Schema, bool, bool], ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        return self._registered.get(key) or self._once(lambda: self._registered.get(key), lambda: self._registered.put(key, ask()))

    def _once(self, remembered: Callable[[], Any], ask: Callable[[], Any]) -> Any:
        # Threads that want the same schema at once ask for it once.
        with self._asking:
            return remembered() or ask()

    def _lookup(self, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
        what = f"this schema under subject {subject}"
        return _registered(self._ask("POST", f"/subjects/{quoted(subject)}", what, _flags(normalize), _body(schema)), subject, schema)

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        path, what = f"/subjects/{quoted(subject)}/versions/{version}", f"version {version} of subject {subject}"
        answer = self._ask("GET", path, what)
        return _registered(answer, subject, self._readable(answer, path, what))

    def _unless_missing(self, key: SchemaKey, path: str, what: str) -> Schema:
        missing = self._missing.get(key)
        if missing is not None and self.clock() - missing[0] < self._missing_s:
            raise UnknownSchema(missing[1])
        try:
            return self._schema(path, what)
        except UnknownSchema as error:
            self._missing.put(key, (self.clock(), str(error)))
            raise

    def _schema(self, path: str, what: str) -> Schema:
        return self._readable(self._ask("GET", path, what), path, what)

    def _readable(self, answer: Any, path: str, what: str) -> Schema:
        schema = _schema(answer)
        if schema.type == PROTOBUF:
            # As text it would need protoc.
            return _schema(self._ask("GET", path, what, {"format": "serialized"}))
        return schema

    def _ask(self, method: str, path: str, what: str, query: Mapping[str, str] | None = None, body: object = None) -> Any:
        try:
            return self._rest.ask(method, path, query, body)
        except RegistryError as error:
            if error.status == 404:
                raise UnknownSchema(f"the schema registry at {', '.join(self.urls)} does not have {what}") from None
            raise


class AsyncSchemaRegistry:
    """As `SchemaRegistry`, with coroutines: it asks in the event loop's default executor."""

    def __init__(self, config: Mapping[str, Setting] | str | None = None, /, **settings: Setting) -> None:
        """Keys as `SchemaRegistry` has them."""
        self.blocking = SchemaRegistry(config, **settings)
        """The registry itself, which serializers take."""

    async def schema(self, schema_id: int) -> Schema:
        """The schema with an id."""
        return await asyncio.to_thread(self.blocking.schema, schema_id)

    async def schema_by_guid(self, guid: UUID) -> Schema:
        """The schema with a GUID."""
        return await asyncio.to_thread(self.blocking.schema_by_guid, guid)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """A version of a subject."""
        return await asyncio.to_thread(self.blocking.version, subject, version)

    async def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject."""
        return await asyncio.to_thread(self.blocking.latest, subject)

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema under a subject."""
        return await asyncio.to_thread(self.blocking.register, subject, schema, normalize=normalize)

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The schema as it stands under a subject."""
        return await asyncio.to_thread(self.blocking.lookup, subject, schema, normalize=normalize)

    async def subjects(self) -> list[str]:
        """The names of all subjects."""
        return await asyncio.to_thread(self.blocking.subjects)

    async def versions(self, subject: str) -> list[int]:
        """The versions that a subject has."""
        return await asyncio.to_thread(self.blocking.versions, subject)

    async def close(self) -> None:
        """Closes its connections."""
        await asyncio.to_thread(self.blocking.close)


def _flags(normalize: bool) -> dict[str, str]:
    return {"normalize": "true"} if normalize else {}


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [each._asdict() for each in schema.references]
    return body


def _schema(answer: Any) -> Schema:
    found = _object(answer)
    text = found.get("schema")
    if not isinstance(text, str):
        raise RegistryError("the schema registry answers without a schema")
    return Schema(text, str(found.get("schemaType") or AVRO), references_of(found.get("references") or []))


def _registered(answer: Any, subject: str, schema: Schema) -> RegisteredSchema:
    found = _object(answer)
    schema_id, version, guid = found.get("id"), found.get("version"), found.get("guid")
    if type(schema_id) is not int:
        raise RegistryError("the schema registry answers without an id")
    try:
        parsed = UUID(guid) if isinstance(guid, str) else None
    except ValueError:
        raise RegistryError("the schema registry answers with a GUID that is none") from None
    return RegisteredSchema(schema_id, schema, subject, version if type(version) is int else None, parsed)


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryError("what answers is no schema registry: its answer is no object")
    return cast(dict[str, Any], answer)


def _list(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise RegistryError("what answers is no schema registry: its answer is no list")
    return answer  # pyright: ignore[reportUnknownVariableType]
