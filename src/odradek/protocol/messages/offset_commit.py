"""OffsetCommit, API key 8."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class OffsetCommitRequest(Message):
    """Request to commit the offsets of a group, or of a simple consumer (KIP-211, KIP-848)."""

    API_KEY = 8
    VALID_VERSIONS = Versions(2, 10)
    FLEXIBLE_VERSIONS = Versions.since(8)

    group_id: str = field(String, "0+")
    generation_id_or_member_epoch: int = field(Int32, "1+", ignorable=True, default=-1)
    member_id: str = field(String, "1+", ignorable=True)
    group_instance_id: str | None = field(String, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(Int64, "2-4", ignorable=True, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array("OffsetCommitRequestTopic"), "0+")

    class OffsetCommitRequestTopic(Struct):
        name: str = field(String, "0-9", ignorable=True)
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = field(Array("OffsetCommitRequestPartition"), "0+")

    class OffsetCommitRequestPartition(Struct):
        partition_index: int = field(Int32, "0+")
        committed_offset: int = field(Int64, "0+")
        committed_leader_epoch: int = field(Int32, "6+", ignorable=True, default=-1)
        committed_metadata: str | None = field(String, "0+", nullable="0+")


class OffsetCommitResponse(Message):
    """Result for every partition."""

    API_KEY = 8
    VALID_VERSIONS = Versions(2, 10)
    FLEXIBLE_VERSIONS = Versions.since(8)

    throttle_time_ms: int = field(Int32, "3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(Array("OffsetCommitResponseTopic"), "0+")

    class OffsetCommitResponseTopic(Struct):
        name: str = field(String, "0-9", ignorable=True)
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = field(Array("OffsetCommitResponsePartition"), "0+")

    class OffsetCommitResponsePartition(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
