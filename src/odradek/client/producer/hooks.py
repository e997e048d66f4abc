"""Hooks of the application into the producer: interceptors, serializers, a partitioner, and callbacks on delivery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from operator import index
from typing import Any, NamedTuple, NoReturn, TypeAlias

from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.client.core.metadata import ClusterView, TopicInfo
from odradek.client.core.partitioner import Partitioner, RoundRobinPartitioner
from odradek.client.producer.interceptors import Interceptors, take_interceptors
from odradek.client.producer.serializers import Serializers, take_serializers
from odradek.client.settings import plugins
from odradek.client.settings.config import PRODUCER_CONFIG, ClientConfig, follow_references
from odradek.client.settings.producer_keys import (
    PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE,
    PARTITIONER_AVAILABILITY_TIMEOUT_MS,
    PARTITIONER_IGNORE_KEYS,
)
from odradek.client.types import ProducerRecord, RecordMetadata

Given: TypeAlias = Any
"""Value of a configuration key: a `Setting`, or an object of the application for serializers, partitioner.class and interceptor.classes."""

Delivered: TypeAlias = Callable[[RecordMetadata, BaseException | None], object]
"""Callback with the metadata of a delivered record, or with the error and metadata without an offset (-1)."""

_LOG = logging.getLogger(__name__)
_PARTITIONER = "partitioner.class"
_INTERCEPTORS = "interceptor.classes"
_BUILT_IN = (PARTITIONER_IGNORE_KEYS, PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE, PARTITIONER_AVAILABILITY_TIMEOUT_MS)
_JAVA = "org.apache.kafka.clients.producer."
_ROUND_ROBIN = _JAVA + "RoundRobinPartitioner"


def check_told(told: object) -> None:
    """Raise TypeError unless `told` is a plain function that can be called with metadata and error."""
    if not callable(told) or iscoroutinefunction(told):
        raise TypeError(
            f"on_delivery must be a plain function of (metadata, error), not {told!r}; a coroutine can await the result of send()"
        )


class _Function:
    """Partitioner made of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.partition = function


class Hooks:
    """Interceptors, serializers and partitioner of one producer."""

    def __init__(self, serializers: Serializers | None, interceptors: Interceptors | None, partitioner: Partitioner | None) -> None:
        self._serializers = serializers or Serializers(None, None)
        self._interceptors = interceptors
        self._partitioner = partitioner
        self._closed = False

    def intercepted(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record that the interceptors' on_send returns in the place of `record`."""
        return record if self._interceptors is None else self._interceptors.on_send(record)

    def serialized(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with bytes for key and value. Raises SerializationError."""
        return self._serializers.apply(record)

    def may_block(self, record: ProducerRecord) -> bool:
        """Return whether `serialized` may wait for a server; if so, do not call it in an event loop."""
        return self._serializers.may_block(record)

    def partition(self, record: ProducerRecord, serialized: ProducerRecord, info: TopicInfo, view: ClusterView) -> int | None:
        """Return the record's own partition, else the partitioner's choice. Return None when there is neither.

        Raises KafkaError when the topic does not have the chosen partition, TypeError when the choice is not a number, and any error of the
        partitioner.
        """
        if record.partition is not None or self._partitioner is None:
            return record.partition
        chosen = self._partitioner.partition(record.topic, record.key, serialized.key, record.value, serialized.value, view)
        try:
            number = index(chosen)
        except TypeError:
            raise TypeError(
                f"{_PARTITIONER} returned {chosen!r} for a record of topic {info.name}, which is not the number of a partition"
            ) from None
        if number not in info.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{_PARTITIONER} chose partition {number} of topic {info.name}, which has partitions 0 to {len(info.partitions) - 1}",
            )
        return number

    def told(self, on_delivery: Delivered | None) -> Delivered | None:
        """Return the callback for a record's outcome: it calls the interceptors, then `on_delivery`. Raises TypeError as `check_told`."""
        if on_delivery is not None:
            check_told(on_delivery)
        interceptors = self._interceptors
        if interceptors is None:
            return on_delivery
        if on_delivery is None:
            return interceptors.on_acknowledgement

        def tell(metadata: RecordMetadata, error: BaseException | None) -> None:
            interceptors.on_acknowledgement(metadata, error)
            on_delivery(metadata, error)

        return tell

    def not_sent(self, record: ProducerRecord, error: BaseException) -> None:
        """Report the error that `send` raises to the interceptors."""
        if self._interceptors is not None:
            partition = -1 if record.partition is None else record.partition
            self._interceptors.on_acknowledgement(RecordMetadata(record.topic, partition, -1, -1), error)

    def refuse(self, call: str) -> NoReturn:
        """Raise OdradekError for a call that sends encoded records, which the hooks cannot process."""
        raise OdradekError(f"{call} sends bytes unchanged: a producer with serializers, interceptors or partitioner.class must use send()")

    def close(self) -> None:
        """Close interceptors and partitioner, once."""
        if self._closed:
            return
        self._closed = True
        if self._interceptors is not None:
            self._interceptors.close()
        close = getattr(self._partitioner, "close", None)
        if close is not None:
            try:
                close()
            except Exception:
                _LOG.error("the partitioner failed to close", exc_info=True)


class ProducerSettings(NamedTuple):
    """Configuration of a producer; `hooks` is only there when the application has set any."""

    config: ClientConfig
    hooks: Hooks | None


def producer_settings(config: Mapping[str, Given] | None, keywords: Mapping[str, Given]) -> ProducerSettings:
    """Check the settings of a producer. Raises ConfigError, which names the key, for an unknown key or an invalid value."""
    given: dict[str, Any] = {}
    for name, value in [*(config or {}).items(), *keywords.items()]:
        if name in given:
            raise ConfigError(f"Configuration {name} is given twice")
        given[name] = value
    given = follow_references(given)
    serializers = take_serializers(given)
    objects = {name: given.pop(name) for name in list(given) if name.replace("_", ".") in (_PARTITIONER, _INTERCEPTORS)}
    # Check the rest first: objects are created and configured only for a producer with valid settings.
    found = ClientConfig(PRODUCER_CONFIG, given)
    given |= objects
    chosen = plugins.take(given, _PARTITIONER)
    interceptors = take_interceptors(given)
    partitioner = None if chosen is None else _partitioner(chosen, given)
    for key, why in _without_effect(found, has_partitioner=partitioner is not None):
        _LOG.warning("%s has no effect: %s", key, why)
    needed = serializers is not None or interceptors is not None or partitioner is not None
    return ProducerSettings(found, Hooks(serializers, interceptors, partitioner) if needed else None)


def _without_effect(config: ClientConfig, *, has_partitioner: bool) -> Iterator[tuple[str, str]]:
    """Yield each given key that has no effect, as in Kafka's producer, with the reason."""
    for key in _BUILT_IN:
        if has_partitioner and config.is_set(key):
            yield key.name, f"{_PARTITIONER} decides"
    late, adaptive = PARTITIONER_AVAILABILITY_TIMEOUT_MS, PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE
    if not has_partitioner and config[late] and not config[adaptive]:
        yield late.name, f"{adaptive} is false"


def _partitioner(given: object, settings: dict[str, Any]) -> Partitioner:
    if given == _ROUND_ROBIN:
        return RoundRobinPartitioner()
    if isinstance(given, str) and given.startswith(_JAVA):
        raise ConfigError(
            f"Invalid value {given} for configuration {_PARTITIONER}: the only class of Java that is supported is {_ROUND_ROBIN}; "
            "leave the key out for the default"
        )
    found = plugins.imported(_PARTITIONER, given) if isinstance(given, str) else given
    if callable(found) and not isinstance(found, type) and not hasattr(found, "partition"):
        return _Function(found)
    made: Partitioner = plugins.made(_PARTITIONER, found, ("partition",))
    plugins.configure(made, settings)
    return made
