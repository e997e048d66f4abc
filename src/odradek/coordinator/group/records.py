"""Record types of `__consumer_offsets`, and the versions in which values are written.

(org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, Protocol
from uuid import UUID

from odradek.base.ids import ZERO_UUID
from odradek.coordinator.records import CoordinatorRecord, RecordSerde
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from odradek.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.schema import Message

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY: Final = 1
"""The only version with an expire timestamp (for OffsetCommit 2-4 with a retention time)."""

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_KEY_START: Final = struct.Struct(">hh")
_VALUE_START: Final = struct.Struct(">hqiB")
"""Version, offset, leader epoch, and the metadata's length + 1 in a single byte."""
_BARE_VALUE: Final = struct.Struct(">hqiBq")
"""`_VALUE_START` for empty metadata, followed by the timestamp: the whole value without tags."""
_LONGEST_METADATA: Final = 0x7E
_NO_TAGS: Final = b"\0"
_TOPIC_ID_TAG: Final = b"\1\0\x10"
_OFFSET_COMMIT_TYPE: Final = OffsetCommitKey.API_KEY

_TYPES: tuple[tuple[type[Message], type[Message]], ...] = (
    (LegacyOffsetCommitKey, OffsetCommitValue),
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
SERDE: Final = RecordSerde(_TYPES)
"""Serde of all record types. Types 0 and 1 share a value class. Share and streams groups are unknown types, whose records are skipped."""


class Commit(Protocol):
    """Commit of one partition in a request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


_metadata_of = attrgetter("committed_metadata")


def has_metadata(commits: Iterable[Commit]) -> bool:
    """Return whether any commit has metadata; most requests have none, which allows a faster path."""
    return any(map(_metadata_of, commits))


def offset_commits(
    group_id: str,
    topic: str,
    commits: Sequence[Commit],
    *,
    commit_timestamp: int,
    expire_timestamp: int | None = None,
    topic_id: UUID = ZERO_UUID,
) -> list[tuple[bytes, bytes]]:
    """Return the encoded key and value of each commit of one topic. Times in Unix milliseconds.

    The message classes would give the same bytes many times slower. These records are most of what coordinators write.
    """
    group, name = group_id.encode(), topic.encode()
    key_start = b"%b%b%b%b" % (_KEY_START.pack(_OFFSET_COMMIT_TYPE, len(group)), group, _SHORT.pack(len(name)), name)
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id.bytes
    partition_of = _INT.pack
    if expire_timestamp is None and not has_metadata(commits):
        bare = _BARE_VALUE.pack
        return [
            (
                key_start + partition_of(each.partition_index),
                bare(OFFSET_COMMIT_VERSION, each.committed_offset, each.committed_leader_epoch, 1, commit_timestamp) + tags,
            )
            for each in commits
        ]
    value_start, value_end = _VALUE_START.pack, _LONG.pack(commit_timestamp) + tags
    encoded: list[tuple[bytes, bytes]] = []
    for each in commits:
        text = each.committed_metadata.encode() if each.committed_metadata else b""
        if expire_timestamp is None and len(text) <= _LONGEST_METADATA:
            start = value_start(OFFSET_COMMIT_VERSION, each.committed_offset, each.committed_leader_epoch, len(text) + 1)
            value = start + text + value_end
        else:
            value = _encoded_by_message(each, commit_timestamp, expire_timestamp, topic_id)
        encoded.append((key_start + partition_of(each.partition_index), value))
    return encoded


def _encoded_by_message(commit: Commit, commit_timestamp: int, expire_timestamp: int | None, topic_id: UUID) -> bytes:
    version = OFFSET_COMMIT_VERSION if expire_timestamp is None else OFFSET_COMMIT_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=commit.committed_offset,
        leader_epoch=commit.committed_leader_epoch,
        metadata=commit.committed_metadata or "",
        commit_timestamp=commit_timestamp,
        expire_timestamp=-1 if expire_timestamp is None else expire_timestamp,
        topic_id=topic_id,
    )
    return _SHORT.pack(version) + value.encode(version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


def parse_offset_key(key: bytes) -> tuple[bytes, bytes, int] | None:
    """Return (group, topic, partition) of an encoded OffsetCommitKey of either type; None for other and malformed keys."""
    try:
        if _SHORT.unpack_from(key)[0] not in (0, 1):
            return None
        topic_at = 4 + _SHORT.unpack_from(key, 2)[0]
        partition_at = topic_at + 2 + _SHORT.unpack_from(key, topic_at)[0]
        if topic_at < 4 or partition_at < topic_at + 2 or partition_at + 4 != len(key):
            return None
        return key[4:topic_at], key[topic_at + 2 : partition_at], _INT.unpack_from(key, partition_at)[0]
    except struct.error:
        return None
