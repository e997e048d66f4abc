"""Interceptors of the producer: objects that see and may change each record, and get the outcome.

The producer logs their exceptions and goes on. Source: org.apache.kafka.clients.producer.ProducerInterceptor,
internals.ProducerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from odradek.client.settings import plugins
from odradek.client.types import ProducerRecord, RecordMetadata

Interceptor: TypeAlias = Any
"""Object with any of the methods on_send(record) -> record, on_acknowledgement(metadata, error), close() and configure(settings)."""

_LOG = logging.getLogger(__name__)
_KEY = "interceptor.classes"
_METHODS = ("on_send", "on_acknowledgement", "close")


class Interceptors:
    """Interceptors of one producer, in the order of the key.

    The application's thread calls `on_send` and `close`. The event loop's thread calls `on_acknowledgement`, except for an error that
    send() raises: that call comes from the application's thread.
    """

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Call on_send of each interceptor with the record and return the last result.

        A failing interceptor leaves the record unchanged.
        """
        for function in self._having("on_send"):
            try:
                changed = function(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {type(changed).__name__}")
                record = changed
            except Exception:
                _LOG.warning("an interceptor failed on a record for topic %s", record.topic, exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Report a written record, or a failed record with its error and without an offset."""
        for function in self._having("on_acknowledgement"):
            try:
                function(metadata, error)
            except BaseException:
                # CancelledError and SystemExit would skip the other interceptors and end the event loop.
                _LOG.warning("an interceptor failed on an acknowledgement", exc_info=True)

    def close(self) -> None:
        """Call close of each interceptor."""
        for function in self._having("close"):
            try:
                function()
            except Exception:
                _LOG.error("an interceptor failed to close", exc_info=True)

    def _having(self, method: str) -> Iterable[Callable[..., Any]]:
        return [getattr(each, method) for each in self._interceptors if hasattr(each, method)]


def take_interceptors(settings: dict[str, Any]) -> Interceptors | None:
    """Remove the key from the settings and return the interceptors: objects, classes, or import paths ("package.module.Class", separated by
    commas). Return None without any.

    Raises ConfigError for a value that cannot be imported or created, lacks all of an interceptor's methods, or is named twice.
    """
    interceptors = plugins.made_all(_KEY, plugins.take(settings, _KEY), _METHODS, settings)
    return Interceptors(interceptors) if interceptors else None
