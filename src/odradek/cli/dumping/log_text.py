"""Text of the batches and records of a segment or snapshot, with the lines of Kafka's DumpLogSegments."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final

from odradek.base.disk import File
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.cli.dumping.batches import FileBatch, UnreadableError, read_batches
from odradek.cli.dumping.decoders import Decoder
from odradek.protocol.as_json import json_text, message_json
from odradek.protocol.messages.raft_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from odradek.protocol.schema import Message
from odradek.records.batch import MAGIC_V2, BatchHeader, Record, increment_sequence
from odradek.storage.names import offset_of_file

ALL_BYTES: Final = 0x7FFFFFFF

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\..*")
_INT16: Final = struct.Struct(">h")
_INT16_INT16: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")
_MARKERS: Final = {0: "ABORT", 1: "COMMIT"}
_CONTROL: Final[dict[int, tuple[str, type[Message]]]] = {
    2: ("LeaderChange:", LeaderChangeMessage),
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
    5: ("KRaftVersion", KRaftVersionRecord),
    6: ("KRaftVoters", VotersRecord),
}


class LogText:
    """Text of one file. `gaps` has the next offset in the file by offset (-1 before the first) where the two are not consecutive.

    `gaps` is complete after the last line.
    """

    def __init__(self, *, deep: bool, decoder: Decoder | None, skip_record_metadata: bool, max_bytes: int = ALL_BYTES) -> None:
        """Choose the contents of the lines. Without `deep` no records are shown; without `decoder` records lack keys and values."""
        self._deep = deep
        self._decoder = decoder
        self._skip = skip_record_metadata
        self._max_bytes = max_bytes
        self._last_offset: int = -1
        self.gaps: dict[int, int] = {}

    def lines(self, file: File, path: str, name: str) -> Iterator[str]:
        """Yield the lines of the file at `path`, with file name `name`.

        Raises UnreadableError, KafkaError or ProtocolError at the first part that cannot be read.
        """
        yield from _title(name)
        size = file.size()
        end = min(size, self._max_bytes)
        valid = 0
        for batch in read_batches(file, path, 0, end):
            yield batch_line(batch)
            if self._deep:
                yield from self._records(batch)
            valid += batch.header.size
        if valid < end and self._max_bytes == ALL_BYTES:
            yield f"Found {end - valid} invalid bytes at the end of {name}"

    def _records(self, batch: FileBatch) -> Iterator[str]:
        for record, suffix in _checked(batch):
            if record.offset != self._last_offset + 1:
                self.gaps[self._last_offset] = record.offset
            self._last_offset = record.offset
            parts: list[str] = []
            if not self._skip:
                parts.append(f"{_metadata(batch.header, record)}{suffix}")
                if batch.header.is_control:
                    parts.append(control_text(record))
            if self._decoder is not None and not batch.header.is_control:
                key, value = self._decoder(record)
                parts += [] if key is None else [f"key: {key}"]
                parts += [] if value is None else [f"payload: {value}"]
            yield f"| {' '.join(parts)}" if parts else ""


def _title(name: str) -> Iterator[str]:
    if name.endswith(".log"):
        yield f"Log starting offset: {base_offset(name)}"
    elif name == "bootstrap.checkpoint":
        yield "KRaft bootstrap snapshot"
    else:
        found = _SNAPSHOT.fullmatch(name)
        if found is None:
            raise UnreadableError(f"{name} is not the name of a snapshot (<20 digits>-<10 digits>.checkpoint)")
        yield f"Snapshot end offset: {int(found[1])}, epoch: {int(found[2])}"


def base_offset(name: str) -> int:
    """Return the offset in a file's name. Raises UnreadableError for a name without an offset."""
    found = offset_of_file(name)
    if found is None:
        raise UnreadableError(f"the name {name} does not begin with an offset (such as 00000000000000000000{name[name.rfind('.') :]})")
    return found


def batch_line(batch: FileBatch) -> str:
    """Return the line about a batch as a whole."""
    header = batch.header
    if header.magic >= MAGIC_V2:
        horizon = "OptionalLong.empty" if header.delete_horizon_ms is None else f"OptionalLong[{header.delete_horizon_ms}]"
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
            f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id}"
            f" producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch}"
            f" isTransactional: {_yes(header.is_transactional)} isControl: {_yes(header.is_control)} deleteHorizonMs: {horizon}"
        )
    else:
        start = f"offset: {header.base_offset}"
    return (
        f"{start} position: {batch.position} {_time_type(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic}"
        f" compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: {_yes(batch.is_valid)}"
    )


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _time_type(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _checked(batch: FileBatch) -> list[tuple[Record, str]]:
    """Return the records, each with a text about its checksum. The text is "" for magic 2, whose records have no checksums."""
    if batch.header.magic >= MAGIC_V2:
        return [(record, "") for record in batch.records()]
    return [(record, f" isValid: {_yes(valid)} crc: {crc}") for record, crc, valid in batch.messages()]


def _metadata(header: BatchHeader, record: Record) -> str:
    sizes = f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    shown = f"offset: {record.offset} {_time_type(header)}: {record.timestamp} {sizes}"
    if header.magic < MAGIC_V2:
        return shown
    sequence = -1 if header.base_sequence < 0 else increment_sequence(header.base_sequence, record.offset - header.base_offset)
    return f"{shown} sequence: {sequence} headerKeys: [{','.join([key for key, _ in record.headers])}]"


def _size(part: bytes | None) -> int:
    return -1 if part is None else len(part)


def control_text(record: Record) -> str:
    """Return the contents of a control record as text. Raises KafkaError or ProtocolError for a malformed record."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _INT16_INT16.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Invalid value size found for control record key: {len(key)} bytes")
    _, kind = _INT16_INT16.unpack_from(key)
    if kind in _MARKERS:
        if len(value) < _MARKER.size:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Invalid value size found for end transaction marker: {len(value)} bytes")
        return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {_MARKER.unpack_from(value)[1]}"
    if kind not in _CONTROL:
        return f"controlType: UNKNOWN({kind})"
    name, message = _CONTROL[kind]
    if len(value) < _INT16.size:
        raise ProtocolError(f"a control record of type {kind} has no version")
    version = min(int(_INT16.unpack_from(value)[0]), message.VALID_VERSIONS.high)
    return f"{name} {json_text(message_json(message.decode(value, version), version))}"
