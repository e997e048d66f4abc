"""Location of schemas in a user's terms: the URL of a registry, its settings, or a folder."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.client.schemas.decoding import shared_source
from odradek.client.schemas.folder import open_source
from odradek.client.schemas.types import SchemaSource

_URL: Final = "schema.registry.url"
_PREFIX: Final = "schema.registry."
_SCHEMES: Final = ("http://", "https://")


class Place(NamedTuple):
    """Registry or folder as plain values that Spark can send to its workers. The repr hides both values, as they may contain passwords."""

    where: str
    settings: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return "Place(...)"

    def source(self) -> SchemaSource:
        """Return the source of the schemas, which all equal places of this process share. Raises ConfigError."""
        return shared_source(self.where, dict(self.settings))

    @contextmanager
    def without_cache(self) -> Generator[SchemaSource]:
        """Return a context manager with a new source without cached schemas, so that the latest version is current."""
        source = cast(SchemaSource, open_source(self.where, dict(self.settings)))
        try:
            yield source
        finally:
            source.close()


def place_of(source: Any, settings: Mapping[str, Any]) -> Place:
    """Return the place from a user's arguments: one or several URLs, a mapping of a registry's keys, or a folder. Raises ConfigError."""
    given: dict[str, str] = {}
    if isinstance(source, Mapping):
        _take(given, cast(Mapping[str, Any], source))
    _take(given, {name.replace("_", "."): value for name, value in settings.items()})
    if isinstance(source, Mapping):
        where = given.pop(_URL, "")
        if not where:
            raise ConfigError(f"Configuration {_URL} does not name any registry")
    elif _URL in given:
        raise ConfigError(f"Configuration {_URL} excludes the argument source: give one of them")
    elif isinstance(source, Path):
        where = str(source.resolve())
    elif isinstance(source, str):
        where = source if source.startswith(_SCHEMES) else str(Path(source).resolve())
    elif isinstance(source, (list, tuple)) and source and all(isinstance(each, str) for each in cast(list[Any], source)):
        where = ",".join(cast(list[str], source))
    else:
        raise ConfigError("source must be the URL of a schema registry, a list of URLs, a mapping of the registry's keys, or a folder")
    if isinstance(source, (Mapping, list, tuple)) and not where.startswith(_SCHEMES):
        raise ConfigError(f"Configuration {_URL} must be http://HOST[:PORT][/PATH] or https://...")
    return Place(where, tuple(sorted(given.items())))


def _take(given: dict[str, str], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        key = _URL if name in ("url", _URL) else name.removeprefix(_PREFIX)
        if key in given:
            raise ConfigError(f"Configuration {key} is given twice")
        if key == _URL and isinstance(value, (list, tuple)):
            value = ",".join(map(str, cast(Sequence[Any], value)))
        given[key] = str(value).lower() if isinstance(value, bool) else str(value)
