"""OffsetFetch, API key 9."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class OffsetFetchRequest(Message):
    """Request for the committed offsets of one group, or of several since KIP-709."""

    API_KEY = 9
    VALID_VERSIONS = Versions(1, 10)
    FLEXIBLE_VERSIONS = Versions.since(6)

    group_id: str = field(String, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(Array("OffsetFetchRequestTopic"), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(Array("OffsetFetchRequestGroup"), "8+")
    require_stable: bool = field(Bool, "7+")

    class OffsetFetchRequestTopic(Struct):
        name: str = field(String, "0-7")
        partition_indexes: list[int] = field(Array(Int32), "0-7")

    class OffsetFetchRequestGroup(Struct):
        group_id: str = field(String, "8+")
        member_id: str | None = field(String, "9+", nullable="9+", ignorable=True, default=None)
        member_epoch: int = field(Int32, "9+", ignorable=True, default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = field(Array("OffsetFetchRequestTopics"), "8+", nullable="8+")

    class OffsetFetchRequestTopics(Struct):
        name: str = field(String, "8-9", ignorable=True)
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        partition_indexes: list[int] = field(Array(Int32), "8+")


class OffsetFetchResponse(Message):
    """Committed offsets with their metadata."""

    API_KEY = 9
    VALID_VERSIONS = Versions(1, 10)
    FLEXIBLE_VERSIONS = Versions.since(6)

    throttle_time_ms: int = field(Int32, "3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(Array("OffsetFetchResponseTopic"), "0-7")
    error_code: int = field(Int16, "2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(Array("OffsetFetchResponseGroup"), "8+")

    class OffsetFetchResponseTopic(Struct):
        name: str = field(String, "0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = field(Array("OffsetFetchResponsePartition"), "0-7")

    class OffsetFetchResponseGroup(Struct):
        group_id: str = field(String, "8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = field(Array("OffsetFetchResponseTopics"), "8+")
        error_code: int = field(Int16, "8+")

    class OffsetFetchResponsePartition(Struct):
        partition_index: int = field(Int32, "0-7")
        committed_offset: int = field(Int64, "0-7")
        committed_leader_epoch: int = field(Int32, "5-7", ignorable=True, default=-1)
        metadata: str | None = field(String, "0-7", nullable="0-7")
        error_code: int = field(Int16, "0-7")

    class OffsetFetchResponseTopics(Struct):
        name: str = field(String, "8-9", ignorable=True)
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = field(Array("OffsetFetchResponsePartitions"), "8+")

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int = field(Int32, "8+")
        committed_offset: int = field(Int64, "8+")
        committed_leader_epoch: int = field(Int32, "8+", ignorable=True, default=-1)
        metadata: str | None = field(String, "8+", nullable="8+")
        error_code: int = field(Int16, "8+")
