"""Interceptors of the producer: objects that see, and may change, what is sent, and hear what became of it.

Source: org.apache.kafka.clients.producer.ProducerInterceptor, internals.ProducerInterceptors. What they raise is logged and swallowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from odradek.client import plugins
from odradek.client.types import ProducerRecord, RecordMetadata

Interceptor: TypeAlias = Any
"""An object with any of: on_send(record) -> record, on_acknowledgement(metadata, error), close(), configure(settings)."""

_LOG = logging.getLogger(__name__)
_KEY = "interceptor.classes"
_METHODS = ("on_send", "on_acknowledgement", "close")


class Interceptors:
    """Those of one producer, in the order of the key. `on_send` and `close` are called in the application's thread,
    `on_acknowledgement` in that of the client's event loop, but for an error that send() raises: then it is the application's.
    """

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """What the last of them makes of the record; each gets what the one before it gave, unless that one failed."""
        for function in self._having("on_send"):
            try:
                changed = function(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send has to return a ProducerRecord, not {type(changed).__name__}")
                record = changed
            except Exception:
                _LOG.warning("an interceptor failed on a record for topic %s", record.topic, exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """The record is written, or with an error it is not, and the metadata has no offset then."""
        for function in self._having("on_acknowledgement"):
            try:
                function(metadata, error)
            except BaseException:
                # CancelledError and SystemExit would keep the acknowledgement from the others, and end the event loop.
                _LOG.warning("an interceptor failed on an acknowledgement", exc_info=True)

    def close(self) -> None:
        """The producer is closed."""
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
