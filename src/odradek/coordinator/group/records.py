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
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


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
