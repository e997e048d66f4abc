"""Arguments and results of an append, and the helpers that need no log."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import COMPRESSION_MASK, HEADER_SIZE, LOG_OVERHEAD, TIMESTAMP_TYPE_MASK, BatchHeader, decode_batch
from odradek.records.compression import Compression
from odradek.records.validation import AppendRules
from odradek.records.validation import RecordError as RecordError
from odradek.records.validation import RecordValidationError as RecordValidationError

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig


class AppendOrigin(IntEnum):
    """Source of an append; decides how much is checked (org.apache.kafka.storage.internals.log.AppendOrigin)."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class UnexpectedAppendOffsetError(KafkaError):
    """Error for offsets that do not continue the log. A follower with an empty log may start over at `first_offset`."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class AppendInfo:
    """Result of an append. With nothing to append, offsets are -1 and `record_count` is 0."""

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "record_count",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_start_offset: int,
        *,
        max_timestamp: int = -1,
        record_count: int = 0,
        size: int = 0,
        log_append_time_ms: int = -1,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        """Append time in milliseconds; -1 when the topic keeps the producer's timestamps."""
        self.log_start_offset = log_start_offset
        self.max_timestamp = max_timestamp
        self.record_count = record_count
        self.size = size
        """Bytes written to the log."""
        self.duplicate = duplicate
        """True when the batch had been appended before; the offsets are then those of the first append."""

    def __repr__(self) -> str:
        return f"AppendInfo({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def rules_of(config: TopicConfig) -> AppendRules:
    """Return the rules for validating batches under a topic's configuration."""
    return AppendRules(
        max_message_bytes=config.max_message_bytes,
        compression=_target_compression(config.compression_type),
        compression_level=_level(config),
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        require_keys=config.compact,
    )


def _target_compression(name: str) -> Compression | None:
    """Return the compression to convert batches to; None keeps the producer's (`compression.type=producer`)."""
    if name == "producer":
        return None
    return Compression.NONE if name == "uncompressed" else Compression[name.upper()]


def _level(config: TopicConfig) -> int | None:
    levels = {"gzip": config.compression_gzip_level, "lz4": config.compression_lz4_level, "zstd": config.compression_zstd_level}
    return levels.get(config.compression_type)


class ControlMarker(NamedTuple):
    """Content of an end-transaction marker."""

    aborted: bool
    coordinator_epoch: int
    timestamp: int


MARKER_RECORD = struct.Struct(">5B2hBhiB")
"""Layout of a marker's only record, as every coordinator writes it (EndTransactionMarker).

Five bytes of framing, version and type, one byte of framing, version and coordinator epoch, no headers.
"""
MARKER_BEGINNING = (32, 0, 0, 0, 8)
"""First five bytes of the record: size, attributes, timestamp delta, offset delta, size of the key."""
MARKER_VALUE_SIZE = 12
_MARKER_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD + MARKER_RECORD.size


def read_marker(batch: memoryview, position: int, header: BatchHeader) -> ControlMarker | None:
    """Return the transaction marker in a control batch; None when the batch holds another record or compaction emptied it."""
    if (
        header.batch_length == _MARKER_BATCH_LENGTH
        and header.record_count == 1
        and not header.attributes & (COMPRESSION_MASK | TIMESTAMP_TYPE_MASK)
        and len(batch) - position >= _MARKER_BATCH_LENGTH + LOG_OVERHEAD
    ):
        *beginning, _, kind, value_size, _, epoch, headers = MARKER_RECORD.unpack_from(batch, position + HEADER_SIZE)
        if (*beginning, value_size, headers) == (*MARKER_BEGINNING, MARKER_VALUE_SIZE, 0) and kind in (0, 1):
            return ControlMarker(kind == 0, epoch, header.base_timestamp)
    records = decode_batch(batch, position, header)
    if not records:
        return None
    record = records[0]
    key, value = record.key, record.value
    if key is None or len(key) < 4 or value is None or len(value) < 6:
        return None
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (0, 1):
        return None
    return ControlMarker(kind == 0, int.from_bytes(value[2:6], "big", signed=True), record.timestamp)
