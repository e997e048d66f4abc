"""Serializers of keys and values: key.serializer and value.serializer (org.apache.kafka.common.serialization.Serializer)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from odradek.client.core.serialization import HeaderList, RecordSerializer, SerializationError, Serializer, named_codec
from odradek.client.settings import plugins
from odradek.client.types import ProducerRecord, encode_content, encode_headers


class _Chosen(NamedTuple):
    name: str
    function: Serializer | None
    of_records: RecordSerializer | None = None


class Serializers(NamedTuple):
    """Serializers of one producer; None passes bytes and text through."""

    key: _Chosen | None
    value: _Chosen | None

    def apply(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with bytes for key and value. Raises SerializationError, which names the failing part and the remedy."""
        if (self.key is not None and self.key.of_records) or (self.value is not None and self.value.of_records):
            # A serializer may add headers.
            headers = list(encode_headers(record.headers))
            key = _written(record.topic, "key", self.key, record.key, headers)
            return record._replace(key=key, value=_written(record.topic, "value", self.value, record.value, headers), headers=headers)
        key = _written(record.topic, "key", self.key, record.key, [])
        return record._replace(key=key, value=_written(record.topic, "value", self.value, record.value, []))

    def may_block(self, record: ProducerRecord) -> bool:
        """Return whether `apply` may wait for a server."""
        return _may_block(record.topic, "key", self.key, record.key) or _may_block(record.topic, "value", self.value, record.value)


def _may_block(topic: str, part: str, chosen: _Chosen | None, content: object) -> bool:
    if content is None or chosen is None or chosen.of_records is None:
        return False
    try:
        return not chosen.of_records.is_ready(topic, part, content)
    except Exception:
        # `apply` raises this error with a better message.
        return False


def _written(topic: str, part: str, chosen: _Chosen | None, content: object, headers: HeaderList) -> bytes | None:
    if content is None or chosen is None:
        return encode_content(content)
    try:
        if chosen.of_records is not None:
            return encode_content(chosen.of_records.serialize(topic, part, content, headers))
        assert chosen.function is not None
        return encode_content(chosen.function(content))
    except Exception as error:
        raise SerializationError(
            f"the {part} of a record for topic {topic} cannot be serialized by {chosen.name}: {error}; send a value of that type, "
            f"or set {part}.serializer to one that fits the {part}"
        ) from error


def take_serializers(settings: dict[str, Any]) -> Serializers | None:
    """Remove both keys from the settings and return the serializers, or None without any.

    Raises ConfigError for a value that is neither a function nor a known name.
    """
    found = Serializers(*(_resolve(name, settings) for name in ("key.serializer", "value.serializer")))
    return found if found.key is not None or found.value is not None else None


def _resolve(name: str, settings: dict[str, Any]) -> _Chosen | None:
    chosen = plugins.take(settings, name)
    if chosen is None:
        return None
    if all(callable(getattr(chosen, method, None)) for method in ("serialize", "is_ready")):
        return _Chosen(type(chosen).__qualname__, None, cast(RecordSerializer, chosen))
    if callable(chosen):
        return _Chosen(getattr(chosen, "__qualname__", type(chosen).__qualname__), chosen)
    return _Chosen(str(chosen), named_codec(name, chosen).write)
