"""What of the application a record passes on its way: interceptors, serializers, a partitioner; and back, when it is acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from operator import index
from typing import Any, NamedTuple, NoReturn, TypeAlias

from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.client import plugins
from odradek.client.config import PRODUCER_CONFIG, ClientConfig, follow_references
from odradek.client.core.metadata import ClusterView, TopicInfo
from odradek.client.core.partitioner import Partitioner, RoundRobinPartitioner
from odradek.client.producer.interceptors import Interceptors, take_interceptors
from odradek.client.producer.serializers import Serializers, take_serializers
from odradek.client.types import ProducerRecord, RecordMetadata

Given: TypeAlias = Any
"""What may be given for a key: a `Setting`; for serializers, partitioner.class and interceptor.classes also objects of the application."""

Delivered: TypeAlias = Callable[[RecordMetadata, BaseException | None], object]
"""Hears of one record: where it stands, or the error, with metadata that has no offset (-1)."""

_LOG = logging.getLogger(__name__)
_PARTITIONER = "partitioner.class"
_INTERCEPTORS = "interceptor.classes"
_BUILT_IN = ("partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms")
_JAVA = "org.apache.kafka.clients.producer."
_ROUND_ROBIN = _JAVA + "RoundRobinPartitioner"


def check_told(told: object) -> None:
    """TypeError for what cannot be told of a record."""
    if not callable(told) or iscoroutinefunction(told):
        raise TypeError(f"on_delivery takes a plain function of (metadata, error), not {told!r}; coroutines can await what send() returns")


class _Function:
    """A function as a partitioner."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.partition = function


class Hooks:
    """Those of one producer; it has none of them at all where it needs none."""

    def __init__(self, serializers: Serializers | None, interceptors: Interceptors | None, partitioner: Partitioner | None) -> None:
        self._serializers = serializers or Serializers(None, None)
        self._interceptors = interceptors
        self._partitioner = partitioner
        self._closed = False

    def intercepted(self, record: ProducerRecord) -> ProducerRecord:
        """The record that is to be sent instead."""
        return record if self._interceptors is None else self._interceptors.on_send(record)

    def serialized(self, record: ProducerRecord) -> ProducerRecord:
        """The record with bytes for key and value; SerializationError."""
        return self._serializers.apply(record)

    def may_block(self, record: ProducerRecord) -> bool:
        """Whether `serialized` may have to wait for somebody: not to be called in an event loop then."""
        return self._serializers.may_block(record)

    def partition(self, record: ProducerRecord, serialized: ProducerRecord, info: TopicInfo, view: ClusterView) -> int | None:
        """The partition that was asked for, else the partitioner's; None without either. KafkaError for one that the topic does not have,
        TypeError for what is no number; and whatever the partitioner raises.
        """
        if record.partition is not None or self._partitioner is None:
            return record.partition
        chosen = self._partitioner.partition(record.topic, record.key, serialized.key, record.value, serialized.value, view)
        try:
            number = index(chosen)
        except TypeError:
            raise TypeError(
                f"{_PARTITIONER} gave {chosen!r} for a record of topic {info.name}, which is no number of a partition"
            ) from None
        if number not in info.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{_PARTITIONER} chose partition {number} of topic {info.name}, which has 0 to {len(info.partitions) - 1}",
            )
        return number

    def told(self, on_delivery: Delivered | None) -> Delivered | None:
        """Who hears of a record: the interceptors, then the application. TypeError as `check_told`."""
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
        """`send` raises the error; the interceptors hear of it, too."""
        if self._interceptors is not None:
            partition = -1 if record.partition is None else record.partition
            self._interceptors.on_acknowledgement(RecordMetadata(record.topic, partition, -1, -1), error)

    def refuse(self, call: str) -> NoReturn:
        """OdradekError for a call whose records nobody could look at on their way."""
        raise OdradekError(
            f"{call} sends bytes as they are: a producer with serializers, interceptors or partitioner.class has to use send()"
        )

    def close(self) -> None:
        """The producer is closed; once."""
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
    """A producer's configuration; `hooks` is None where records need no more than to be sent."""

    config: ClientConfig
    hooks: Hooks | None


def producer_settings(config: Mapping[str, Given] | None, keywords: Mapping[str, Given]) -> ProducerSettings:
    """Checks the settings of a producer; ConfigError names a key that does not fit."""
    given: dict[str, Any] = {}
    for name, value in [*(config or {}).items(), *keywords.items()]:
        if name in given:
            raise ConfigError(f"Configuration {name} is given twice")
        given[name] = value
    given = follow_references(given)
    serializers = take_serializers(given)
    objects = {name: given.pop(name) for name in list(given) if name.replace("_", ".") in (_PARTITIONER, _INTERCEPTORS)}
    # Objects are made, and told of their settings, only for a producer that can be.
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
    """Keys that were given and do nothing, as with Kafka's producer, and why."""
    for key in _BUILT_IN:
        if has_partitioner and config.was_given(key):
            yield key, f"{_PARTITIONER} decides"
    late, adaptive = "partitioner.availability.timeout.ms", "partitioner.adaptive.partitioning.enable"
    if not has_partitioner and config.integer(late) and not config.flag(adaptive):
        yield late, f"{adaptive} is false"


def _partitioner(given: object, settings: dict[str, Any]) -> Partitioner:
    if given == _ROUND_ROBIN:
        return RoundRobinPartitioner()
    if isinstance(given, str) and given.startswith(_JAVA):
        raise ConfigError(
            f"Invalid value {given} for configuration {_PARTITIONER}: of Java's there is {_ROUND_ROBIN}, or none for the default"
        )
    found = plugins.imported(_PARTITIONER, given) if isinstance(given, str) else given
    if callable(found) and not isinstance(found, type) and not hasattr(found, "partition"):
        return _Function(found)
    made: Partitioner = plugins.made(_PARTITIONER, found, ("partition",))
    plugins.configure(made, settings)
    return made
