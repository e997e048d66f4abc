"""OffsetDelete, API key 47."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class OffsetDeleteRequest(Message):
    """Request to delete committed offsets of a group (KIP-496)."""

    API_KEY = 47
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0+")
    topics: list[OffsetDeleteRequestTopic] = field(Array("OffsetDeleteRequestTopic"), "0+")

    class OffsetDeleteRequestTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = field(Array("OffsetDeleteRequestPartition"), "0+")

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = field(Int32, "0+")


class OffsetDeleteResponse(Message):
    """Result for every partition."""

    API_KEY = 47
    VALID_VERSIONS = Versions(0, 0)

    error_code: int = field(Int16, "0+")
    throttle_time_ms: int = field(Int32, "0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field(Array("OffsetDeleteResponseTopic"), "0+")

    class OffsetDeleteResponseTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = field(Array("OffsetDeleteResponsePartition"), "0+")

    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
