"""Decoders of keys and values: text, numbers, and records of Kafka's internal topics as JSON (DumpLogSegments.MessageParser)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias, cast

from odradek.base.errors import OdradekError
from odradek.cli.dumping.batches import UnreadableError
from odradek.coordinator.records import RecordSerde, UnknownRecordTypeError
from odradek.protocol.as_json import Json, json_text, message_json
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.group_records import GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitValue
from odradek.protocol.registry import decode_metadata_record, message_classes
from odradek.protocol.schema import Message
from odradek.records.batch import Record

_INT16: Final = struct.Struct(">h")
_CAPITALS: Final = re.compile(r"(?<!^)(?=[A-Z])")
_GROUP_MODULES: Final = ("group_records", "consumer_group_records", "share_group_records", "streams_group_records")
_EMBEDDED: Final[dict[str, type[Message]]] = {"subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment}


class Shown(NamedTuple):
    """Key and value of a record as text; None for a part that is not shown."""

    key: str | None
    value: str | None


Decoder: TypeAlias = "Callable[[Record], Shown]"


def text(data: bytes) -> str:
    return data.decode(errors="replace")


def number(size: int, name: str, data: bytes) -> str:
    """Return a big-endian signed number of `size` bytes as text. Raises UnreadableError for another size."""
    if len(data) != size:
        raise UnreadableError(f"Size of data received by {name} is not {size}")
    return str(int.from_bytes(data, "big", signed=True))


PARTS: Final[dict[str, Callable[[bytes], str]]] = {
    "org.apache.kafka.tools.api.StringDecoder": text,
    "org.apache.kafka.tools.api.IntegerDecoder": partial(number, 4, "IntegerDeserializer"),
    "org.apache.kafka.tools.api.LongDecoder": partial(number, 8, "LongDeserializer"),
}
"""Decoders of Kafka with useful output, by class name."""


def plain(key: Callable[[bytes], str], value: Callable[[bytes], str]) -> Decoder:
    """Return a decoder that applies `key` to keys and `value` to values."""
    return lambda record: Shown(
        None if record.key is None else key(record.key),
        None if record.value is None else value(record.value),
    )


def cluster_metadata(record: Record) -> Shown:
    """Decode a record of `__cluster_metadata`; such a record has no key."""
    try:
        message, version = decode_metadata_record(record.value or b"")
        name = _CAPITALS.sub("_", type(message).__name__).upper()
        shown: Json = {"type": name, "version": version, "data": message_json(message, version)}
        return Shown(None, json_text(shown))
    except OdradekError as error:
        return Shown(None, f"Error at {record.offset}, skipping. {error}")


def offsets() -> Decoder:
    """Return a decoder for records of `__consumer_offsets`, for all kinds of groups."""
    pairs = [pair for module in _GROUP_MODULES for pair in _pairs(module) if pair[0] is not LegacyOffsetCommitKey]
    serde = RecordSerde([(LegacyOffsetCommitKey, OffsetCommitValue), *pairs])
    return partial(_coordinator, serde)


def transactions() -> Decoder:
    """Return a decoder for records of `__transaction_state`."""
    return partial(_coordinator, RecordSerde(_pairs("transaction_records")))


def share_group_state() -> Decoder:
    """Return a decoder for records of `__share_group_state`."""
    return partial(_coordinator, RecordSerde(_pairs("share_records")))


def _pairs(module: str) -> list[tuple[type[Message], type[Message]]]:
    classes = {cls.__name__: cls for cls in message_classes(module)}
    return [(cls, classes[name.removesuffix("Key") + "Value"]) for name, cls in classes.items() if name.endswith("Key")]


def _coordinator(serde: RecordSerde, record: Record) -> Shown:
    if record.key is None:
        raise UnreadableError(f"Failed to decode message at offset {record.offset} using the specified decoder (message had a missing key)")
    try:
        decoded = serde.decode(record.key, record.value)
        key: Json = {"type": str(decoded.key.API_KEY), "data": message_json(decoded.key, 0)}
        if decoded.value is None:
            return Shown(json_text(key), "<DELETE>")
        value: Json = {"version": str(decoded.version), "data": _data(decoded.value, decoded.version)}
        return Shown(json_text(key), json_text(value))
    except UnknownRecordTypeError:
        (kind,) = _INT16.unpack_from(record.key)
        return Shown(f"Unknown record type {kind} at offset {record.offset}, skipping.", None)
    except OdradekError as error:
        return Shown(f"Error at offset {record.offset}, skipping. {error}", None)


def _data(message: Message, version: int) -> dict[str, Json]:
    found = message_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == "consumer":
        for member in cast("list[dict[str, Json]]", found["members"]):
            for name, kind in _EMBEDDED.items():
                member[name] = _embedded(kind, cast("bytes", member[name]))
    return found


def _embedded(kind: type[Message], data: bytes) -> Json:
    """Return a member's subscription or assignment as JSON, or the bytes themselves when they have another format."""
    try:
        (version,) = _INT16.unpack_from(data)
        return message_json(kind.decode(data[_INT16.size :], version), version)
    except (OdradekError, struct.error):
        return data
