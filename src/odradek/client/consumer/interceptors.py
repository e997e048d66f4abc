"""Interceptors of the consumer: objects that see, and may change, what is handed out, and hear what is committed.

Source: org.apache.kafka.clients.consumer.ConsumerInterceptor, internals.ConsumerInterceptors. What they raise is logged and swallowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from odradek.base.errors import ConfigError
from odradek.client.core.offsets import Offsets
from odradek.client.types import ConsumerRecord

Interceptor: TypeAlias = Any
"""An object with any of: on_consume(records) -> records, on_commit(offsets), close(), configure(settings)."""

_LOG = logging.getLogger(__name__)
_KEY = "interceptor.classes"
_METHODS = ("on_consume", "on_commit", "close")


class Interceptors:
    """Those of one consumer, in the order of the key. To be called by the application's thread or task."""

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What the last of them makes of the records; each gets what the one before it gave, unless that one failed."""
        for function in self._having("on_consume") if records else ():
            try:
                records = list(function(records))
            except Exception:
                _LOG.warning("an interceptor failed on records", exc_info=True)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """These offsets are committed."""
        for function in self._having("on_commit"):
            try:
                function(dict(offsets))
            except Exception:
                _LOG.warning("an interceptor failed on a commit", exc_info=True)

    def close(self) -> None:
        """The consumer is closed."""
        for function in self._having("close"):
            try:
                function()
            except Exception:
                _LOG.error("an interceptor failed to close", exc_info=True)

    def _having(self, method: str) -> Iterable[Callable[..., Any]]:
        return [getattr(each, method) for each in self._interceptors if hasattr(each, method)]


def take_interceptors(settings: dict[str, Any]) -> Interceptors | None:
    """Takes the key out of the settings: objects, classes, or import paths ("package.module.Class", several with commas). None without any.

    ConfigError for what cannot be imported or made, has none of an interceptor's methods, or is named twice.
    """
    names = [name for name in (_KEY, _KEY.replace(".", "_")) if name in settings]
    if len(names) > 1:
        raise ConfigError(f"Configuration {_KEY} is given twice")
    given: Any = settings.pop(names[0]) if names else None
    chosen: list[Any]
    if isinstance(given, str):
        chosen = [path.strip() for path in given.split(",") if path.strip()]
    elif isinstance(given, (list, tuple)):
        chosen = list(given)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    else:
        chosen = [] if given is None else [given]
    if any(chosen.count(each) > 1 for each in chosen):
        raise ConfigError(f"Invalid value for configuration {_KEY}: an interceptor is named twice")
    interceptors = [_made(each) for each in chosen]
    if not interceptors:
        return None
    for each in interceptors:
        if hasattr(each, "configure"):
            each.configure(dict(settings))
    return Interceptors(interceptors)


def _made(given: object) -> Interceptor:
    found = _imported(given) if isinstance(given, str) else given
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise ConfigError(f"Invalid value {given} for configuration {_KEY}: {error}") from error
    if not any(callable(getattr(made, method, None)) for method in _METHODS):
        raise ConfigError(f"Invalid value {given} for configuration {_KEY}: it has none of {', '.join(_METHODS)}")
    return made


def _imported(path: str) -> object:
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"Invalid value {path} for configuration {_KEY}: {error}") from error
