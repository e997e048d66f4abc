"""key.deserializer and value.deserializer: conversion of the records that are handed out (org.apache.kafka.common.serialization)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from odradek.base.ids import TopicPartition
from odradek.client.core.serialization import Deserializer as Deserializer
from odradek.client.core.serialization import RecordDeserializer, SerializationError, named_codec
from odradek.client.settings import plugins
from odradek.client.types import ConsumerRecord


class RecordDeserializationError(SerializationError):
    """Key or value that its deserializer cannot read (org.apache.kafka.common.errors.RecordDeserializationException).

    The position stays at the record: seek to `offset` + 1 to skip it.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str, error: Exception, record: ConsumerRecord) -> None:
        super().__init__(
            f"the {part} of {topic_partition} at offset {offset} cannot be deserialized: {error}; seek past the record to continue"
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part
        """Unreadable part of the record: key or value."""
        self.record = record
        """Record with key and value as bytes."""


class Deserializers(NamedTuple):
    """Deserializers of keys and values; None leaves the bytes."""

    key: Deserializer | RecordDeserializer | None
    value: Deserializer | RecordDeserializer | None

    def apply(self, records: Sequence[ConsumerRecord]) -> tuple[list[ConsumerRecord], RecordDeserializationError | None]:
        """Return the records up to the first unreadable record, and the error of that record (None if all are readable)."""
        done: list[ConsumerRecord] = []
        for record in records:
            part, key, value = "key", record.key, record.value
            try:
                if self.key is not None and key is not None:
                    key = self.key(key) if callable(self.key) else self.key.deserialize(record.topic, part, key, record.headers)
                part = "value"
                if self.value is not None and value is not None:
                    value = self.value(value) if callable(self.value) else self.value.deserialize(record.topic, part, value, record.headers)
            except Exception as error:
                where = TopicPartition(record.topic, record.partition)
                return done, RecordDeserializationError(where, record.offset, part, error, record)
            done.append(record._replace(key=key, value=value))
        return done, None

    def preparation(self, records: Sequence[ConsumerRecord]) -> Callable[[], None] | None:
        """Return a function to call outside of the event loop, so that `apply` does not block; None if `apply` does not block."""
        if all(chosen is None or callable(chosen) for chosen in self):
            return None
        for index, record in enumerate(records):
            if next(self._missing(record), None) is not None:
                return partial(self._prepare, records[index:])
        return None

    def _prepare(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            for chosen, part, data in self._missing(record):
                if not chosen.prepare(part, data, record.headers):
                    return

    def _missing(self, record: ConsumerRecord) -> Iterator[tuple[RecordDeserializer, str, bytes]]:
        for part, chosen, data in (("key", self.key, record.key), ("value", self.value, record.value)):
            if data is not None and chosen is not None and not callable(chosen) and not chosen.is_ready(part, data, record.headers):
                yield chosen, part, data


def take_deserializers(settings: dict[str, Any]) -> Deserializers | None:
    """Remove key.deserializer and value.deserializer from the settings; None when both leave the bytes.

    Raises ConfigError for a value that is neither a function nor a known name.
    """
    found = Deserializers(*(_resolve(name, settings) for name in ("key.deserializer", "value.deserializer")))
    return found if found.key is not None or found.value is not None else None


def _resolve(name: str, settings: dict[str, Any]) -> Deserializer | RecordDeserializer | None:
    chosen: Any = plugins.take(settings, name)
    if chosen is None or callable(chosen):
        return cast("Deserializer | None", chosen)
    if all(callable(getattr(chosen, method, None)) for method in ("deserialize", "is_ready", "prepare")):
        return cast(RecordDeserializer, chosen)
    return named_codec(name, chosen).read
