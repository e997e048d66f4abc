"""Checks of records, offsets and names that an application passes to a client.

The rule: the call that takes a value checks it, before the value has a place in a queue, a request or the metadata. Several items share a
batch, a request or a metadata request: an item that cannot be encoded would stop all of them. A value of a wrong type is a TypeError. A
value out of range, or text that is not UTF-8 (half of a surrogate pair), is a ValueError. After an error nothing of the call is done.
Values are copied where the caller could change them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import NamedTuple

from odradek.base.errors import KafkaError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.core.accumulator import Header, record_size
from odradek.client.types import OffsetAndMetadata, encode_content, encode_headers
from odradek.records.batch import LOG_OVERHEAD, MAGIC_V2, check_crc, read_header

_BYTES = {bytes}
_PLAIN = {bytes, type(None)}
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_LONGEST_STRING = 0x7FFF
"""Most bytes of a string in a request; the broker decides which topic names are valid within that limit."""


class Outgoing(NamedTuple):
    """Record that can be encoded. `timestamp` is Unix milliseconds, None for the time at which a batch takes the record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    partition: int | None
    timestamp: int | None
    size: int
    """Upper estimate of the record's bytes in a batch."""


def checked_record(value: object, key: object, partition: object, headers: object, timestamp: object) -> Outgoing:
    """Return the arguments of `send` in the form that batches take. Raises TypeError or ValueError."""
    key_bytes, value_bytes, pairs = encode_content(key), encode_content(value), encode_headers(headers)
    return Outgoing(
        key_bytes,
        value_bytes,
        pairs,
        None if partition is None else checked_partition(partition),
        None if timestamp is None else checked_timestamp(timestamp),
        record_size(key_bytes, value_bytes, pairs),
    )


class Values(NamedTuple):
    """Values of many records, and the bytes of each."""

    values: list[bytes | None]
    sizes: list[int]


def checked_values(values: object) -> Values:
    """Return the values of many records as bytes. Raises TypeError or ValueError for a value that is neither bytes, text nor None."""
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        kind = type(values).__name__  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"values must be a sequence of bytes, str or None, not {kind}")
    found: list[bytes | None] = list(values)  # pyright: ignore[reportUnknownArgumentType]
    kinds = set(map(type, found))
    if kinds == _BYTES:
        return Values(found, list(map(len, found)))  # type: ignore[arg-type]
    if not kinds <= _PLAIN:
        found = [encode_content(value) for value in found]
    return Values(found, [len(value) if value else 0 for value in found])


def checked_timestamp(timestamp: object) -> int:
    """Return the timestamp. Raises TypeError for anything but an integer, ValueError beyond 64 bits."""
    return _integer("timestamp", timestamp, _INT64, "Unix milliseconds")


def checked_partition(partition: object) -> int:
    """Return the partition's number. Raises TypeError for anything but an integer, ValueError beyond 32 bits."""
    return _integer("partition", partition, _INT32, "the number of a partition")


def _integer(name: str, value: object, values: range, meaning: str) -> int:
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an int ({meaning}), not {type(value).__name__}")
    if number not in values:
        raise ValueError(f"{name} must be {meaning}, {values[0]} to {values[-1]}, not {number}")
    return number


def checked_topic(topic: object) -> str:
    """Return the topic's name. Raises TypeError for anything but a str, ValueError for a str that no request can carry."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic must be a str, not {type(topic).__name__}")
    if _check_text("a topic", topic) > _LONGEST_STRING:
        raise ValueError(f"the name of a topic must have at most {_LONGEST_STRING} bytes")
    return topic


def checked_place(where: object) -> TopicPartition:
    """Return a partition of a topic. Raises TypeError or ValueError unless it is a topic's name and a number that a request can carry."""
    if not isinstance(where, tuple) or len(where) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"a partition must be a TopicPartition, or a pair of topic and number, not {where!r}")
    topic, partition = where  # pyright: ignore[reportUnknownVariableType]
    return TopicPartition(checked_topic(topic), checked_partition(partition))  # pyright: ignore[reportUnknownArgumentType]


def checked_batch(payload: object, record_count: object) -> bytes:
    """Return a copy of a whole record batch that was encoded elsewhere.

    Raises TypeError for anything but bytes. Raises ValueError unless the bytes are one batch (magic 2) of `record_count` records with the
    right checksum.
    """
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise TypeError(f"a record batch must be bytes, not {type(payload).__name__}")
    copied = bytes(payload)  # pyright: ignore[reportUnknownArgumentType]
    count = _integer("record_count", record_count, range(1, 1 << 31), "the number of records")
    try:
        header = read_header(copied)
    except (KafkaError, ProtocolError) as error:
        raise ValueError(f"malformed record batch: {error}") from None
    if header.magic != MAGIC_V2 or header.batch_length + LOG_OVERHEAD != len(copied) or header.is_control:
        raise ValueError(f"the bytes must be exactly one record batch of magic {MAGIC_V2} without control records")
    if header.record_count != count:
        raise ValueError(f"the record batch has {header.record_count} records, not {count}")
    if not check_crc(copied, 0, header):
        raise ValueError("the checksum (CRC-32C) of the record batch is wrong")
    return copied


def checked_offsets(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit, by partition. Raises TypeError or ValueError for offsets that no request can carry."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets must be a mapping of partitions to offsets, not {type(offsets).__name__}")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for where, given in dict(offsets).items():  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        place = checked_place(where)  # pyright: ignore[reportUnknownArgumentType]
        offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(checked_offset(given))  # pyright: ignore[reportUnknownArgumentType]
        if not isinstance(offset.metadata, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the metadata of an offset must be a str, not {type(offset.metadata).__name__}")
        _check_text("the metadata of an offset", offset.metadata)
        epoch = None if offset.leader_epoch is None else _integer("leader_epoch", offset.leader_epoch, _INT32, "the epoch of a leader")
        found[place] = OffsetAndMetadata(checked_offset(offset.offset), epoch, offset.metadata)
    return found


def checked_offset(given: object) -> int:
    """Return an offset. Raises TypeError for anything but an int, ValueError for a negative int or one of more than 63 bits."""
    return _integer("offset", given, range(1 << 63), "the offset of the next record to read")


def _check_text(what: str, text: str) -> int:
    """Return the text's length in bytes. Raise ValueError for text that UTF-8 cannot encode."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be text that can be encoded as UTF-8: {error}") from None
