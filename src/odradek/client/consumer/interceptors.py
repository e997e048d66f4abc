"""Interceptors of the consumer: objects that see, and may change, records that are handed out, and that hear of commits.

Errors of an interceptor are logged and swallowed. Source: org.apache.kafka.clients.consumer.ConsumerInterceptor,
internals.ConsumerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from odradek.client.core.offsets import Offsets
from odradek.client.settings import plugins
from odradek.client.types import ConsumerRecord

Interceptor: TypeAlias = Any
"""Object with any of: on_consume(records) -> records, on_commit(offsets), close(), configure(settings)."""

_LOG = logging.getLogger(__name__)
_KEY = "interceptor.classes"
_METHODS = ("on_consume", "on_commit", "close")


class Interceptors:
    """Interceptors of one consumer, in the order of the key. To be called by the application's thread or task."""

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records as the last interceptor returns them.

        Each interceptor gets the result of the interceptor before it, unless that interceptor failed.
        """
        for function in self._having("on_consume") if records else ():
            try:
                records = list(function(records))
            except Exception:
                _LOG.warning("an interceptor failed on records", exc_info=True)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Tell the interceptors that these offsets are committed."""
        for function in self._having("on_commit"):
            try:
                function(dict(offsets))
            except Exception:
                _LOG.warning("an interceptor failed on a commit", exc_info=True)

    def close(self) -> None:
        """Close the interceptors."""
        for function in self._having("close"):
            try:
                function()
            except Exception:
                _LOG.error("an interceptor failed to close", exc_info=True)

    def _having(self, method: str) -> Iterable[Callable[..., Any]]:
        return [getattr(each, method) for each in self._interceptors if hasattr(each, method)]


def take_interceptors(settings: dict[str, Any]) -> Interceptors | None:
    """Remove interceptor.classes from the settings and return the interceptors; None if it names none.

    The value holds objects, classes, or import paths ("package.module.Class", several with commas). Raises ConfigError for a value that
    cannot be imported or made, has no interceptor method, or is named twice.
    """
    interceptors = plugins.made_all(_KEY, plugins.take(settings, _KEY), _METHODS, settings)
    return Interceptors(interceptors) if interceptors else None
