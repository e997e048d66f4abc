"""Records of `__remote_log_metadata` (KIP-405); API_KEY is the record type."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Bytes, Int8, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class RemoteLogSegmentMetadataRecord(Message):
    """Segment copied to remote storage (KIP-405)."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("RemoteLogSegmentIdEntry", "0+")
    start_offset: int = field(Int64, "0+")
    end_offset: int = field(Int64, "0+")
    broker_id: int = field(Int32, "0+")
    max_timestamp_ms: int = field(Int64, "0+")
    event_timestamp_ms: int = field(Int64, "0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(Array("SegmentLeaderEpochEntry"), "0+")
    segment_size_in_bytes: int = field(Int32, "0+")
    custom_metadata: bytes | None = field(Bytes, "0+", nullable="0+", default=None)
    remote_log_segment_state: int = field(Int8, "0+")
    txn_index_empty: bool = field(Bool, "0+", tag=0)

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = field("TopicIdPartitionEntry", "0+")
        id: UUID = field(Uuid, "0+")

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = field(Int32, "0+")
        offset: int = field(Int64, "0+")

    class TopicIdPartitionEntry(Struct):
        name: str = field(String, "0+")
        id: UUID = field(Uuid, "0+")
        partition: int = field(Int32, "0+")


class RemoteLogSegmentMetadataUpdateRecord(Message):
    """New state of a remote segment (KIP-405)."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("RemoteLogSegmentIdEntry", "0+")
    broker_id: int = field(Int32, "0+")
    event_timestamp_ms: int = field(Int64, "0+")
    custom_metadata: bytes | None = field(Bytes, "0+", nullable="0+", default=None)
    remote_log_segment_state: int = field(Int8, "0+")

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = field("TopicIdPartitionEntry", "0+")
        id: UUID = field(Uuid, "0+")

    class TopicIdPartitionEntry(Struct):
        name: str = field(String, "0+")
        id: UUID = field(Uuid, "0+")
        partition: int = field(Int32, "0+")


class RemotePartitionDeleteMetadataRecord(Message):
    """State of the deletion of a remote partition (KIP-405)."""

    API_KEY = 2
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topic_id_partition: TopicIdPartitionEntry = field("TopicIdPartitionEntry", "0+")
    broker_id: int = field(Int32, "0+")
    event_timestamp_ms: int = field(Int64, "0+")
    remote_partition_delete_state: int = field(Int8, "0+")

    class TopicIdPartitionEntry(Struct):
        name: str = field(String, "0+")
        id: UUID = field(Uuid, "0+")
        partition: int = field(Int32, "0+")


class RemoteLogSegmentMetadataSnapshotRecord(Message):
    """Remote segment in the local snapshot of the remote log metadata (KIP-405)."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    segment_id: UUID = field(Uuid, "0+")
    start_offset: int = field(Int64, "0+")
    end_offset: int = field(Int64, "0+")
    broker_id: int = field(Int32, "0+")
    max_timestamp_ms: int = field(Int64, "0+")
    event_timestamp_ms: int = field(Int64, "0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(Array("SegmentLeaderEpochEntry"), "0+")
    segment_size_in_bytes: int = field(Int32, "0+")
    custom_metadata: bytes | None = field(Bytes, "0+", nullable="0+", default=None)
    remote_log_segment_state: int = field(Int8, "0+")
    txn_index_empty: bool = field(Bool, "0+", tag=0)

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = field(Int32, "0+")
        offset: int = field(Int64, "0+")
