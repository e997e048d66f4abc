"""Batches of the metadata log: metadata records in Kafka's frame, and control records of Raft and of snapshots."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from odradek.base.ids import ZERO_UUID
from odradek.consensus.messages import ControlRecord, ControlUpdate, KRaftVersionChange, LeaderChange
from odradek.consensus.voters import Endpoint, ReplicaKey, Voter, VoterSet
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.raft_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record
from odradek.protocol.schema import Message
from odradek.records.batch import BatchHeader, check_crc, decode_batch, encode_batch, iter_headers

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6
"""Types of control records (org.apache.kafka.common.record.ControlRecordType)."""

_WHOLE: Final = 2**63 - 1
"""Default of `max_records`, with which batches are not sliced."""

MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_BATCH_RECORDS = 10_000
"""Largest batch of the metadata log in bytes and records (KafkaRaftClient.MAX_BATCH_SIZE_BYTES, QuorumController.MAX_RECORDS_PER_BATCH)."""

_CONTROL_KEY = struct.Struct(">hh")


class Batch(NamedTuple):
    """Decoded batch, or a slice of one, with metadata records, or with control records as (type, value)."""

    base_offset: int
    end_offset: int
    epoch: int
    append_time_ms: int
    size: int
    records: list[VersionedRecord]
    control: list[tuple[int, bytes]]
    complete: bool = True
    """Whether the batch ends with these records. The last slice has the batch's `size` in bytes; the slices before it have 0."""


def encode_metadata_batch(records: Sequence[VersionedRecord], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encode one batch of metadata records, uncompressed as in Kafka. Raises ValueError without records."""
    return encode_values([encode_record(record) for record in records], base_offset=base_offset, epoch=epoch, now_ms=now_ms)


def encode_record(record: VersionedRecord) -> bytes:
    return encode_metadata_record(cast(Message, record.message), record.version)


def encode_values(values: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encode one batch of already encoded records. Raises ValueError without records."""
    if not values:
        raise ValueError("a metadata batch without records")
    return encode_batch([(now_ms, None, value, ()) for value in values], base_offset=base_offset, partition_leader_epoch=epoch)


def split_values(
    values: Sequence[bytes], *, max_bytes: int = MAX_BATCH_BYTES, max_records: int = MAX_BATCH_RECORDS
) -> Iterator[list[bytes]]:
    """Split encoded records into batches within Kafka's limits. A record above the limit gets a batch for itself."""
    room = max_bytes - 1024
    part: list[bytes] = []
    size = 0
    for value in values:
        needed = len(value) + 32
        if part and (size + needed > room or len(part) >= max_records):
            yield part
            part, size = [], 0
        part.append(value)
        size += needed
    if part:
        yield part


def encode_control_batch(control: Sequence[ControlRecord], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encode one batch of Raft control records."""
    return encode_control_values([_control_value(record) for record in control], base_offset=base_offset, epoch=epoch, now_ms=now_ms)


def encode_control_values(values: Sequence[tuple[int, bytes]], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encode one batch of control records given as (type, value)."""
    records = [(now_ms, _CONTROL_KEY.pack(0, kind), value, ()) for kind, value in values]
    return encode_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, control=True)


def snapshot_header(last_contained_log_time_ms: int) -> tuple[int, bytes]:
    return SNAPSHOT_HEADER, SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_time_ms).encode(0)


def snapshot_footer() -> tuple[int, bytes]:
    return SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0).encode(0)


def kraft_version_value(level: int) -> tuple[int, bytes]:
    return KRAFT_VERSION, KRaftVersionRecord(version=0, k_raft_version=level).encode(0)


def voters_value(voters: VoterSet) -> tuple[int, bytes]:
    record = VotersRecord(
        version=0,
        voters=[
            VotersRecord.Voter(
                voter_id=voter.id,
                voter_directory_id=voter.directory_id or ZERO_UUID,
                endpoints=[VotersRecord.Endpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
                k_raft_version_feature=VotersRecord.KRaftVersionFeature(
                    min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                ),
            )
            for voter in voters
        ],
    )
    return KRAFT_VOTERS, record.encode(0)


def _control_value(record: ControlRecord) -> tuple[int, bytes]:
    if isinstance(record, LeaderChange):
        message = LeaderChangeMessage(
            version=record.version,
            leader_id=record.leader_id,
            voters=[_leader_change_voter(voter) for voter in record.voters],
            granting_voters=[_leader_change_voter(voter) for voter in record.granting],
        )
        return LEADER_CHANGE, message.encode(record.version)
    if isinstance(record, KRaftVersionChange):
        return kraft_version_value(record.level)
    return voters_value(record.voters)


def _leader_change_voter(key: ReplicaKey) -> LeaderChangeMessage.Voter:
    return LeaderChangeMessage.Voter(voter_id=key.id)


def decode_batches(data: bytes | memoryview, *, max_records: int = _WHOLE) -> Iterator[Batch]:
    """Yield every whole batch in `data`, in slices of at most `max_records`.

    Raises KafkaError CORRUPT_MESSAGE for a wrong CRC, and StorageError for a record that this release does not know.
    """
    view = memoryview(data)
    for position, header in iter_headers(view):
        if not check_crc(view, position, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the metadata batch at offset {header.base_offset} has a wrong CRC")
        if header.is_control:
            yield _decode_control(view, position, header)
        else:
            yield from _decode(view, position, header, max_records)


def _decode(view: memoryview, position: int, header: BatchHeader, max_records: int) -> Iterator[Batch]:
    epoch, time_ms = header.partition_leader_epoch, header.max_timestamp
    offset = header.base_offset
    records: list[VersionedRecord] = []
    for record in decode_batch(view, position, header):
        if len(records) == max_records:
            yield Batch(offset, record.offset, epoch, time_ms, 0, records, [], complete=False)
            offset, records = record.offset, []
        if record.value is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the metadata record at offset {record.offset} is empty")
        try:
            message, version = decode_metadata_record(record.value)
        except ProtocolError as error:
            raise StorageError(f"the metadata record at offset {record.offset} cannot be read by this release: {error}") from None
        records.append(VersionedRecord(message, version))
    yield Batch(offset, header.next_offset, epoch, time_ms, header.size, records, [])


def _decode_control(view: memoryview, position: int, header: BatchHeader) -> Batch:
    control: list[tuple[int, bytes]] = []
    for record in decode_batch(view, position, header):
        if record.key is None or len(record.key) < _CONTROL_KEY.size or record.value is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the control record at offset {record.offset} has no type")
        control.append((_CONTROL_KEY.unpack_from(record.key)[1], bytes(record.value)))
    return Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, header.max_timestamp, header.size, [], control)


def control_values(data: bytes | memoryview) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, type, value) of each control record in `data`. Other batches are skipped without decoding."""
    view = memoryview(data)
    for position, header in iter_headers(view):
        if header.is_control:
            for index, (kind, value) in enumerate(_decode_control(view, position, header).control):
                yield header.base_offset + index, kind, value


def control_updates(data: bytes | memoryview) -> Iterator[ControlUpdate]:
    """Yield the voter sets and kraft.versions in the control records of `data`."""
    for offset, kind, value in control_values(data):
        update = control_update(offset, kind, value)
        if update is not None:
            yield update


def control_update(offset: int, kind: int, value: bytes) -> ControlUpdate | None:
    """Return the voters or kraft.version in a control record, or None for other types."""
    if kind == KRAFT_VERSION:
        return ControlUpdate(offset, kraft_version=KRaftVersionRecord.decode(value, 0).k_raft_version)
    if kind == KRAFT_VOTERS:
        return ControlUpdate(offset, voters=_voter_set(VotersRecord.decode(value, 0)))
    return None


def snapshot_header_time(value: bytes) -> int:
    """Return the last contained log time in milliseconds of a snapshot's header record."""
    return SnapshotHeaderRecord.decode(value, 0).last_contained_log_timestamp


def _voter_set(record: VotersRecord) -> VoterSet:
    return VoterSet(
        Voter(
            voter.voter_id,
            directory_or_none(voter.voter_directory_id),
            tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
            voter.k_raft_version_feature.min_supported_version,
            voter.k_raft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )


def directory_or_none(directory_id: UUID) -> UUID | None:
    """Return None for the zero id, which stands for a missing directory id on the wire."""
    return directory_id if directory_id != ZERO_UUID else None
