"""Interceptors of the consumer: objects that see, and may change, what is handed out, and hear what is committed.

Source: org.apache.kafka.clients.consumer.ConsumerInterceptor, internals.ConsumerInterceptors. What they raise is logged and swallowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from odradek.client import plugins
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
    interceptors = plugins.made_all(_KEY, plugins.take(settings, _KEY), _METHODS, settings)
    return Interceptors(interceptors) if interceptors else None
