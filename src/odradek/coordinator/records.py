"""Coordinator records: key and value are messages, each preceded by an int16 with its type (key) or version (value).

(org.apache.kafka.coordinator.common.runtime.CoordinatorRecord, CoordinatorRecordSerde)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.protocol.errors import ProtocolError
from odradek.protocol.schema import Message

_INT16 = struct.Struct(">h")


class UnknownRecordTypeError(ProtocolError):
    """Error of a record type that a later release has written; the record is skipped, as in Kafka."""


class CoordinatorRecord(NamedTuple):
    """Record of a coordinator. The value None is a tombstone; `version` is the version in which the value is written."""

    key: Message
    value: Message | None = None
    version: int = 0


class EncodedRecords(NamedTuple):
    """Encoded records that are decided and replayed as a unit, without message objects; for the most frequent records."""

    records: Sequence[tuple[bytes, bytes | None]]
    """Encoded keys and values."""
    replay: Callable[[int, int], object]
    """Function (offset of the first record, producer id) that replays the records. All of them are committed or reverted together."""


class RecordSerde:
    """Conversion between `CoordinatorRecord` and the bytes in the log."""

    __slots__ = ("_types",)

    def __init__(self, types: Iterable[tuple[type[Message], type[Message]]]) -> None:
        """`types` has (key class, value class) for each record type; the type is the key's API_KEY."""
        self._types: Mapping[int, tuple[type[Message], type[Message]]] = {key.API_KEY: (key, value) for key, value in types}

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Return the encoded key and value."""
        key = _INT16.pack(record.key.API_KEY) + record.key.encode(0)
        value = record.value
        return key, None if value is None else _INT16.pack(record.version) + value.encode(record.version)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        """Return the decoded record. Raises UnknownRecordTypeError for an unknown type, and ProtocolError for malformed data."""
        if key is None or len(key) < 2:
            raise ProtocolError("the key of a coordinator's record has no type")
        (record_type,) = _INT16.unpack_from(key)
        classes = self._types.get(record_type)
        if classes is None:
            raise UnknownRecordTypeError(f"unknown record type {record_type}")
        key_class, value_class = classes
        decoded_key = key_class.decode(memoryview(key)[2:], 0)
        if value is None:
            return CoordinatorRecord(decoded_key)
        if len(value) < 2:
            raise ProtocolError(f"the value of a record of type {record_type} has no version")
        (version,) = _INT16.unpack_from(value)
        versions = value_class.VALID_VERSIONS
        if not versions.includes(version):
            raise ProtocolError(f"unknown version {version} of the value of a record of type {record_type}")
        return CoordinatorRecord(decoded_key, value_class.decode(memoryview(value)[2:], version), version)
