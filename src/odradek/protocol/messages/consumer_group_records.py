"""Records of `__consumer_offsets` for consumer groups (KIP-848); API_KEY is the record type."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bytes, Int8, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ConsumerGroupMetadataKey(Message):
    """Key: a consumer group."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ConsumerGroupMetadataValue(Message):
    """Value: the group epoch, and a hash of the subscribed topics' metadata."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    epoch: int = field(Int32, "0+")
    metadata_hash: int = field(Int64, "0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message):
    """Key: the topics a consumer group is subscribed to (written before 4.1)."""

    API_KEY = 4
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ConsumerGroupPartitionMetadataValue(Message):
    """Value: partition counts and racks of the subscribed topics (written before 4.1)."""

    API_KEY = 4
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topics: list[TopicMetadata] = field(Array("TopicMetadata"), "0+")

    class TopicMetadata(Struct):
        topic_id: UUID = field(Uuid, "0+")
        topic_name: str = field(String, "0+")
        num_partitions: int = field(Int32, "0+")
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = field(Array("PartitionMetadata"), "0+")

    class PartitionMetadata(Struct):
        partition: int = field(Int32, "0+")
        racks: list[str] = field(Array(String), "0+")


class ConsumerGroupMemberMetadataKey(Message):
    """Key: a member of a consumer group."""

    API_KEY = 5
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ConsumerGroupMemberMetadataValue(Message):
    """Value: subscription, client and timeouts of a member; its classic protocols during a migration."""

    API_KEY = 5
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    instance_id: str | None = field(String, "0+", nullable="0+")
    rack_id: str | None = field(String, "0+", nullable="0+")
    client_id: str = field(String, "0+")
    client_host: str = field(String, "0+")
    subscribed_topic_names: list[str] = field(Array(String), "0+")
    subscribed_topic_regex: str | None = field(String, "0+", nullable="0+")
    rebalance_timeout_ms: int = field(Int32, "0+", default=-1)
    server_assignor: str | None = field(String, "0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field("ClassicMemberMetadata", "0+", nullable="0+", tag=0)

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int = field(Int32, "0+")
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = field(Array("ClassicProtocol"), "0+")

    class ClassicProtocol(Struct):
        name: str = field(String, "0+")
        metadata: bytes = field(Bytes, "0+")


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Key: the target assignment of a consumer group."""

    API_KEY = 6
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of the target assignment."""

    API_KEY = 6
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    assignment_epoch: int = field(Int32, "0+")
    assignment_timestamp: int = field(Int64, "0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Key: the target assignment of a member of a consumer group."""

    API_KEY = 7
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Value: the target partitions of a member."""

    API_KEY = 7
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topic_partitions: list[TopicPartition] = field(Array("TopicPartition"), "0+")

    class TopicPartition(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Key: the current assignment of a member of a consumer group."""

    API_KEY = 8
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Value: the epochs of a member, its partitions, and the partitions to be revoked."""

    API_KEY = 8
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    member_epoch: int = field(Int32, "0+")
    previous_member_epoch: int = field(Int32, "0+")
    state: int = field(Int8, "0+")
    assigned_partitions: list[TopicPartitions] = field(Array("TopicPartitions"), "0+")
    partitions_pending_revocation: list[TopicPartitions] = field(Array("TopicPartitions"), "0+")

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
        assignment_epochs: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=0)


class ConsumerGroupRegularExpressionKey(Message):
    """Key: a regular expression of a consumer group."""

    API_KEY = 16
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    regular_expression: str = field(String, "0")


class ConsumerGroupRegularExpressionValue(Message):
    """Value: the topics that match the expression, with version and time of the evaluation."""

    API_KEY = 16
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topics: list[str] = field(Array(String), "0+")
    version: int = field(Int64, "0+")
    timestamp: int = field(Int64, "0+")
