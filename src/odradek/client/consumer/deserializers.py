"""key.deserializer and value.deserializer: what records are made of when they are handed out (org.apache.kafka.common.serialization)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.base.errors import ConfigError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.types import ConsumerRecord

Deserializer = Callable[[bytes], Any]
"""Makes something of the bytes of a key or value; not called for null, which stays None."""


class RecordDeserializationError(OdradekError):
    """A key or value that its deserializer cannot read (org.apache.kafka.common.errors.RecordDeserializationException). The position stays
    at the record: seek to `offset` + 1 to pass over it.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str, error: Exception) -> None:
        super().__init__(f"the {part} of {topic_partition} at offset {offset} cannot be deserialized: {error}; seek past it to go on")
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part


def _number(form: str) -> Deserializer:
    unpack = struct.Struct(form).unpack
    return lambda data: unpack(data)[0]


def _text(data: bytes) -> str:
    return data.decode()


_NAMED: Final[Mapping[str, Deserializer | None]] = {
    "bytes": None,
    "string": _text,
    "json": json.loads,
    "short": _number(">h"),
    "integer": _number(">i"),
    "long": _number(">q"),
    "float": _number(">f"),
    "double": _number(">d"),
}
_JAVA: Final = {
    f"org.apache.kafka.common.serialization.{name.title()}Deserializer": name for name in _NAMED if name not in ("json", "bytes")
}
_JAVA_BYTES: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


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
                return done, RecordDeserializationError(where, record.offset, part, error)
            done.append(record._replace(key=key, value=value))
        return done, None


def take_deserializers(settings: dict[str, Any]) -> Deserializers | None:
    """Takes the two keys out of the settings; ConfigError for what is no function and no known name. None when both leave bytes."""
    found = Deserializers(*(_resolve(name, settings) for name in ("key.deserializer", "value.deserializer")))
    return found if found.key is not None or found.value is not None else None


def _resolve(name: str, settings: dict[str, Any]) -> Deserializer | None:
    given = [settings.pop(each) for each in (name, name.replace(".", "_")) if each in settings]
    if len(given) > 1:
        raise ConfigError(f"Configuration {name} is given twice")
    chosen = given[0] if given else None
    if chosen is None or chosen == _JAVA_BYTES:
        return None
    if callable(chosen):
        return chosen  # type: ignore[no-any-return]
    key = _JAVA.get(str(chosen), str(chosen))
    if key not in _NAMED:
        raise ConfigError(f"Invalid value {chosen} for configuration {name}: it must be a function of bytes, or one of {', '.join(_NAMED)}")
    return _NAMED[key]
