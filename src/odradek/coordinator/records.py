"""What coordinators write: records whose key and value are messages, each behind the int16 that tells its type or version.

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
    """A record of a later release: it is left alone, as in Kafka."""


class CoordinatorRecord(NamedTuple):
    """`value` None is a tombstone; `version` is the one the value is written in."""

    key: Message
    value: Message | None = None
    version: int = 0


class EncodedRecords(NamedTuple):
    """Records that were decided and are replayed as one, without messages being made of them: for what is written most."""

    records: Sequence[tuple[bytes, bytes | None]]
    """Keys and values as the log has them."""
    replay: Callable[[int, int], object]
    """Given the offset of the first record and the producer id; the records are committed, or taken back, together."""


class RecordSerde:
    """Between `CoordinatorRecord` and the bytes in the log."""

    __slots__ = ("_types",)

    def __init__(self, types: Iterable[tuple[type[Message], type[Message]]]) -> None:
        """(key class, value class) of every record type; a type is its key's API_KEY."""
        self._types: Mapping[int, tuple[type[Message], type[Message]]] = {key.API_KEY: (key, value) for key, value in types}

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value as the log has them."""
        key = _INT16.pack(record.key.API_KEY) + record.key.encode(0)
        value = record.value
        return key, None if value is None else _INT16.pack(record.version) + value.encode(record.version)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        """UnknownRecordTypeError for a type that this release does not know, ProtocolError for anything malformed."""
        if key is None or len(key) < 2:
            raise ProtocolError("a coordinator's record has no key with a type")
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
            raise ProtocolError(f"unknown version {version} of a value of record type {record_type}")
        return CoordinatorRecord(decoded_key, value_class.decode(memoryview(value)[2:], version), version)
