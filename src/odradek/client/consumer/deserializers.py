"""key.deserializer and value.deserializer: what records are made of when they are handed out (org.apache.kafka.common.serialization)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client import plugins
from odradek.client.core.serialization import Deserializer as Deserializer
from odradek.client.core.serialization import SerializationError, named_codec
from odradek.client.types import ConsumerRecord


class RecordDeserializationError(SerializationError):
    """A key or value that its deserializer cannot read (org.apache.kafka.common.errors.RecordDeserializationException). The position stays
    at the record: seek to `offset` + 1 to pass over it.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str, error: Exception, record: ConsumerRecord) -> None:
        super().__init__(f"the {part} of {topic_partition} at offset {offset} cannot be deserialized: {error}; seek past it to go on")
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part
        """Which of the two cannot be read: key or value."""
        self.record = record
        """The record as it was read: key and value are bytes."""


class Deserializers(NamedTuple):
    """Both; None leaves the bytes."""

    key: Deserializer | None
    value: Deserializer | None

    def apply(self, records: Sequence[ConsumerRecord]) -> tuple[list[ConsumerRecord], RecordDeserializationError | None]:
        """The records up to the first that cannot be read, and why that is so."""
        done: list[ConsumerRecord] = []
        for record in records:
            part, key, value = "key", record.key, record.value
            try:
                if self.key is not None and key is not None:
                    key = self.key(key)
                part = "value"
                if self.value is not None and value is not None:
                    value = self.value(value)
            except Exception as error:
                where = TopicPartition(record.topic, record.partition)
                return done, RecordDeserializationError(where, record.offset, part, error, record)
            done.append(record._replace(key=key, value=value))
        return done, None


def take_deserializers(settings: dict[str, Any]) -> Deserializers | None:
    """Takes the two keys out of the settings; ConfigError for what is no function and no known name. None when both leave bytes."""
    found = Deserializers(*(_resolve(name, settings) for name in ("key.deserializer", "value.deserializer")))
    return found if found.key is not None or found.value is not None else None


def _resolve(name: str, settings: dict[str, Any]) -> Deserializer | None:
    chosen: Deserializer | str | None = plugins.take(settings, name)
    return chosen if chosen is None or callable(chosen) else named_codec(name, chosen).read
