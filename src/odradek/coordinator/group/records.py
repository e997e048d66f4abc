"""What `__consumer_offsets` holds: record types, and the versions in which values are written.

(org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde)
"""

from __future__ import annotations

import struct
from typing import Final
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
"""The only version with an expire timestamp (OffsetCommit 2-4 with a retention time)."""

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_KEY_START: Final = struct.Struct(">hh")
_VALUE_START: Final = struct.Struct(">hqiB")
"""Version, offset, leader epoch, length of the metadata and one in a single byte."""
_LONGEST_NAME: Final = 0x7FFF
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
"""Types 0 and 1 share their value, whose versions say what it holds. Share and streams groups are unknown types: left alone."""


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    expire_timestamp: int | None = None,
    topic_id: UUID = ZERO_UUID,
) -> CoordinatorRecord:
    """A committed offset. Times in ms since the epoch."""
    encoded: tuple[bytes, bytes] | None = None
    if expire_timestamp is None:
        encoded = _encoded(group_id, topic, partition, offset, leader_epoch, metadata, commit_timestamp, topic_id)
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            expire_timestamp=-1 if expire_timestamp is None else expire_timestamp,
            topic_id=topic_id,
        ),
        OFFSET_COMMIT_VERSION if expire_timestamp is None else OFFSET_COMMIT_VERSION_WITH_EXPIRY,
        encoded=encoded,
    )


def _encoded(
    group_id: str, topic: str, partition: int, offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, topic_id: UUID
) -> tuple[bytes, bytes] | None:
    """What the messages would give, several times as fast: of all that coordinators write this is the most. None to leave it to them."""
    group, name, text = group_id.encode(), topic.encode(), metadata.encode()
    if len(group) > _LONGEST_NAME or len(name) > _LONGEST_NAME or len(text) > _LONGEST_METADATA:
        return None
    key = b"%b%b%b%b%b" % (_KEY_START.pack(_OFFSET_COMMIT_TYPE, len(group)), group, _SHORT.pack(len(name)), name, _INT.pack(partition))
    head = _VALUE_START.pack(OFFSET_COMMIT_VERSION, offset, leader_epoch, len(text) + 1)
    tail = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id.bytes
    return key, b"%b%b%b%b" % (head, text, _LONG.pack(commit_timestamp), tail)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


def parse_offset_key(key: bytes) -> tuple[bytes, bytes, int] | None:
    """(group, topic, partition) of an encoded OffsetCommitKey of either type; None for anything else or malformed."""
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
