"""Formatter with the properties and the output bytes of kafka-console-consumer (Java class DefaultMessageFormatter, Kafka 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import click

from odradek.cli.shared.client_command import typed_bytes
from odradek.client.types import ConsumerRecord

Formatter = Callable[[ConsumerRecord], bytes]
Decoder = Callable[[bytes], bytes]

DEFAULT: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
NO_OP: Final = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"

_COLUMNS: Final = ("timestamp", "partition", "offset", "delivery", "headers", "key", "value")
_TEXTS: Final = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_DESERIALIZERS: Final = ("key.deserializer", "value.deserializer", "headers.deserializer")
PROPERTIES: Final = (*(f"print.{column}" for column in _COLUMNS), *_TEXTS, *_DESERIALIZERS)
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."


class Undecodable(ValueError):
    """Error for bytes that a deserializer cannot read."""


def _number(name: str, size: int) -> Decoder:
    def decode(content: bytes) -> bytes:
        if len(content) != size:
            raise Undecodable(f"Size of data received by {name} is not {size}")
        return str(int.from_bytes(content, "big", signed=True)).encode()

    return decode


DECODERS: Final[dict[str, Decoder]] = {
    "StringDeserializer": lambda content: content.decode("utf-8", "replace").encode(),
    "ShortDeserializer": _number("ShortDeserializer", 2),
    "IntegerDeserializer": _number("IntegerDeserializer", 4),
    "LongDeserializer": _number("LongDeserializer", 8),
}
"""Decoders by the names of Kafka's classes. On the command line a name may have its package in front."""


def console_formatter(properties: Mapping[str, str]) -> Formatter:
    """Return the formatter for properties of --formatter-property. Raises UsageError for an unknown property or deserializer.

    As in Kafka, null is replaced by the bytes of null.literal, and these bytes are deserialized. The formatter raises Undecodable for a
    record that its deserializer cannot read.
    """
    for name in properties:
        if name not in PROPERTIES:
            raise click.UsageError(f"--formatter-property {name}: unknown property; the properties are {', '.join(PROPERTIES)}")
    printed = [column for column in _COLUMNS if _is_on(properties, f"print.{column}", column == "value")]
    column_separator, line_separator, headers_separator, null = (
        typed_bytes(properties.get(name, default)) for name, default in _TEXTS.items()
    )
    of_key, of_value, of_header = (_decoder(name, properties.get(name)) for name in _DESERIALIZERS)

    def headers(record: ConsumerRecord) -> bytes:
        shown = [name.encode() + b":" + of_header(null if value is None else value) for name, value in record.headers]
        return headers_separator.join(shown) if shown else b"NO_HEADERS"

    parts: dict[str, Formatter] = {
        "timestamp": _timestamp,
        "partition": lambda record: b"Partition:%d" % record.partition,
        "offset": lambda record: b"Offset:%d" % record.offset,
        "delivery": lambda _: b"Delivery:NOT_PRESENT",
        "headers": headers,
        "key": lambda record: of_key(null if record.key is None else record.key),
        "value": lambda record: of_value(null if record.value is None else record.value),
    }
    chosen = [parts[column] for column in printed]
    if not chosen:
        return lambda _: b""
    return lambda record: column_separator.join([part(record) for part in chosen]) + line_separator


def _is_on(properties: Mapping[str, str], name: str, default: bool) -> bool:
    return properties[name].strip().lower() == "true" if name in properties else default


def _timestamp(record: ConsumerRecord) -> bytes:
    if record.timestamp < 0:
        return b"NO_TIMESTAMP"
    return b"%s:%d" % (b"LogAppendTime" if record.timestamp_type else b"CreateTime", record.timestamp)


def _decoder(option: str, name: str | None) -> Decoder:
    if name is None:
        return lambda content: content
    decoder = DECODERS.get(name.removeprefix(_SERIALIZATION))
    if decoder is None:
        raise click.UsageError(f"{option} {name}: unknown deserializer; the deserializers are {', '.join(DECODERS)}")
    return decoder
