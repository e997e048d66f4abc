"""Client of a schema registry over HTTP: Confluent's REST API, which other registries also implement."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID
from weakref import WeakValueDictionary

from odradek.client.calls.forks import renew_after_fork
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.config import registry_config
from odradek.client.schemas.errors import RegistryError, UnknownSchema
from odradek.client.schemas.registry_keys import CACHE_CAPACITY, LATEST_CACHE_TTL_SEC, MISSING_ID_CACHE_TTL_SEC
from odradek.client.schemas.rest import Rest, quoted
from odradek.client.schemas.types import AVRO, PROTOBUF, RegisteredSchema, Schema, references_of
from odradek.client.schemas.wire import SchemaKey
from odradek.client.settings.config import Setting


class SchemaRegistry:
    """Blocking client of a schema registry, which caches schemas.

    Threads may share a registry. A forked child may use the parent's, and opens new connections. A pickled copy starts with an empty cache.
    Methods raise UnknownSchema for what the registry does not have, RegistryError when the registry cannot be reached or refuses.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)
    """Function that returns monotonic seconds; tests replace it."""

    def __init__(self, config: Mapping[str, Setting] | str | None = None, /, **settings: Setting) -> None:
        """Check the settings: keys as Confluent names them in `config`, or keyword arguments with underscores. Text means
        `schema.registry.url`.

        No request is sent yet. Raises ConfigError, which names the key.
        """
        self._given: dict[str, Setting] = {"url": config} if isinstance(config, str) else dict(config or {})
        self._given |= {name.replace("_", "."): value for name, value in settings.items()}
        parsed = registry_config(self._given, {})
        self._rest = Rest(parsed)
        capacity = parsed[CACHE_CAPACITY]
        self._missing_s = parsed[MISSING_ID_CACHE_TTL_SEC]
        self._missing: Cache[SchemaKey, tuple[float, str]] = Cache(capacity)
        self._latest_s = parsed[LATEST_CACHE_TTL_SEC]
        self._ids: Cache[int, Schema] = Cache(capacity)
        self._guids: Cache[UUID, Schema] = Cache(capacity)
        self._versions: Cache[tuple[str, int], RegisteredSchema] = Cache(capacity)
        self._latest: Cache[str, tuple[float, RegisteredSchema]] = Cache(capacity)
        self._registered: Cache[tuple[str, Schema, bool, bool], RegisteredSchema] = Cache(capacity)
        self._asking: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()
        """Locks of the requests under way, by what they ask for."""
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the locks, which threads of the parent may have held during requests."""
        self._asking = WeakValueDictionary()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[..., SchemaRegistry], tuple[dict[str, Setting]]]:
        return SchemaRegistry, (self._given,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of the registry, without name and password."""
        return self._rest.urls

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id."""
        return self._ids.get(schema_id) or self._once(
            schema_id,
            lambda: self._ids.get(schema_id),
            lambda: self._ids.put(schema_id, self._unless_missing(schema_id, f"/schemas/ids/{schema_id}", f"a schema with id {schema_id}")),
        )

    def schema_by_guid(self, guid: UUID) -> Schema:
        """Return the schema with a GUID. Raises UnknownSchema if the registry does not know it, as registries without GUIDs do not."""
        return self._guids.get(guid) or self._once(
            guid,
            lambda: self._guids.get(guid),
            lambda: self._guids.put(guid, self._unless_missing(guid, f"/schemas/guids/{guid}", f"a schema with GUID {guid}")),
        )

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""
        key = (subject, version)
        return self._versions.get(key) or self._once(
            key, lambda: self._versions.get(key), lambda: self._versions.put(key, self._version(subject, str(version)))
        )

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, at most latest.cache.ttl.sec old."""

        def ask() -> RegisteredSchema:
            asked_at = self.clock()
            return self._latest.put(subject, (asked_at, self._version(subject, "latest")))[1]

        return self.remembered_latest(subject) or self._once(subject, lambda: self.remembered_latest(subject), ask)

    def remembered_latest(self, subject: str, ahead_s: float = 0.0) -> RegisteredSchema | None:
        """Return the cached latest version if its latest.cache.ttl.sec does not end within `ahead_s` seconds, else None.

        Sends no request.
        """
        found = self._latest.get(subject)
        if found is None or 0 <= self._latest_s <= self.clock() + ahead_s - found[0]:
            return None
        return found[1]

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema under a subject, after adding it as a new version if it is missing.

        Raises RegistryError (409) if it is incompatible.
        """

        def ask() -> RegisteredSchema:
            answer = self._ask("POST", f"/subjects/{quoted(subject)}/versions", f"subject {subject}", _flags(normalize), _body(schema))
            self._latest.clear()
            found = _registered(answer, subject, schema)
            if found.guid is None or found.version is None:
                # Older registries return only the id.
                return self._lookup(subject, schema, normalize)
            return found

        return self._remembered((subject, schema, normalize, True), ask)

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema with its id and version under a subject."""
        return self._remembered((subject, schema, normalize, False), lambda: self._lookup(subject, schema, normalize))

    def subjects(self) -> list[str]:
        """Return the names of all subjects, uncached."""
        return [str(name) for name in _list(self._ask("GET", "/subjects", "subjects"))]

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, uncached."""
        return [int(each) for each in _list(self._ask("GET", f"/subjects/{quoted(subject)}/versions", f"subject {subject}"))]

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._rest.close()

    def _remembered(self, key: tuple[str, Schema, bool, bool], ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        return self._registered.get(key) or self._once(key, lambda: self._registered.get(key), lambda: self._registered.put(key, ask()))

    def _once(self, key: Hashable, remembered: Callable[[], Any], ask: Callable[[], Any]) -> Any:
        """Return the cached value, or the answer. Threads that need the same key send one request; other threads do not wait."""
        with self._lock:
            asking = self._asking.get(key)
            if asking is None:
                asking = self._asking[key] = threading.Lock()
        with asking:
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
            # The text form of the schema would need protoc.
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
    """Client of a schema registry like `SchemaRegistry`, with coroutines. Requests run in the event loop's default executor."""

    def __init__(self, config: Mapping[str, Setting] | str | None = None, /, **settings: Setting) -> None:
        """Check the settings as `SchemaRegistry` does."""
        self.blocking = SchemaRegistry(config, **settings)
        """Blocking client that sends the requests; serializers take this object."""

    async def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id."""
        return await asyncio.to_thread(self.blocking.schema, schema_id)

    async def schema_by_guid(self, guid: UUID) -> Schema:
        """Return the schema with a GUID."""
        return await asyncio.to_thread(self.blocking.schema_by_guid, guid)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""
        return await asyncio.to_thread(self.blocking.version, subject, version)

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, at most latest.cache.ttl.sec old."""
        return await asyncio.to_thread(self.blocking.latest, subject)

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema under a subject, after adding it as a new version if it is missing."""
        return await asyncio.to_thread(self.blocking.register, subject, schema, normalize=normalize)

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the schema with its id and version under a subject."""
        return await asyncio.to_thread(self.blocking.lookup, subject, schema, normalize=normalize)

    async def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return await asyncio.to_thread(self.blocking.subjects)

    async def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject."""
        return await asyncio.to_thread(self.blocking.versions, subject)

    async def close(self) -> None:
        """Close the connections."""
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
        raise RegistryError("the schema registry's response has no schema")
    return Schema(text, str(found.get("schemaType") or AVRO), references_of(found.get("references") or []))


def _registered(answer: Any, subject: str, schema: Schema) -> RegisteredSchema:
    found = _object(answer)
    schema_id, version, guid = found.get("id"), found.get("version"), found.get("guid")
    if type(schema_id) is not int:
        raise RegistryError("the schema registry's response has no id")
    try:
        parsed = UUID(guid) if isinstance(guid, str) else None
    except ValueError:
        raise RegistryError("the schema registry's response has an invalid GUID") from None
    return RegisteredSchema(schema_id, schema, subject, version if type(version) is int else None, parsed)


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryError("the server is not a schema registry: its response is not a JSON object")
    return cast(dict[str, Any], answer)


def _list(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise RegistryError("the server is not a schema registry: its response is not a JSON list")
    return answer  # pyright: ignore[reportUnknownVariableType]
