"""Records of `__consumer_offsets` for share groups (KIP-932); API_KEY is the record type."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int8, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ShareGroupMemberMetadataKey(Message):
    """Key: a member of a share group."""

    API_KEY = 10
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ShareGroupMemberMetadataValue(Message):
    """Value: subscription and client of a member."""

    API_KEY = 10
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    rack_id: str | None = field(String, "0+", nullable="0+")
    client_id: str = field(String, "0+")
    client_host: str = field(String, "0+")
    subscribed_topic_names: list[str] = field(Array(String), "0+")


class ShareGroupMetadataKey(Message):
    """Key: a share group."""

    API_KEY = 11
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ShareGroupMetadataValue(Message):
    """Value: the group epoch, and a hash of the metadata."""

    API_KEY = 11
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    epoch: int = field(Int32, "0+")
    metadata_hash: int = field(Int64, "0+")


class ShareGroupTargetAssignmentMetadataKey(Message):
    """Key: the target assignment of a share group."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ShareGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of the target assignment."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    assignment_epoch: int = field(Int32, "0+")
    assignment_timestamp: int = field(Int64, "0+", tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message):
    """Key: the target assignment of a member of a share group."""

    API_KEY = 13
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ShareGroupTargetAssignmentMemberValue(Message):
    """Value: the target partitions of a member."""

    API_KEY = 13
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topic_partitions: list[TopicPartition] = field(Array("TopicPartition"), "0+")

    class TopicPartition(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ShareGroupCurrentMemberAssignmentKey(Message):
    """Key: the current assignment of a member of a share group."""

    API_KEY = 14
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ShareGroupCurrentMemberAssignmentValue(Message):
    """Value: the epochs and partitions of a member."""

    API_KEY = 14
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    member_epoch: int = field(Int32, "0+")
    previous_member_epoch: int = field(Int32, "0+")
    state: int = field(Int8, "0+")
    assigned_partitions: list[TopicPartitions] = field(Array("TopicPartitions"), "0+")

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ShareGroupStatePartitionMetadataKey(Message):
    """Key: the share partitions whose state exists."""

    API_KEY = 15
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ShareGroupStatePartitionMetadataValue(Message):
    """Value: topics whose share state is being initialized, exists, or is being deleted."""

    API_KEY = 15
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    initializing_topics: list[TopicPartitionsInfo] = field(Array("TopicPartitionsInfo"), "0+")
    initialized_topics: list[TopicPartitionsInfo] = field(Array("TopicPartitionsInfo"), "0+")
    deleting_topics: list[TopicInfo] = field(Array("TopicInfo"), "0+")

    class TopicPartitionsInfo(Struct):
        topic_id: UUID = field(Uuid, "0+")
        topic_name: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")

    class TopicInfo(Struct):
        topic_id: UUID = field(Uuid, "0+")
        topic_name: str = field(String, "0+")
