"""AlterShareGroupOffsets, API key 91."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class AlterShareGroupOffsetsRequest(Message):
    """Request to set the start offsets of an empty share group (KIP-932)."""

    API_KEY = 91
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(Array("AlterShareGroupOffsetsRequestTopic"), "0+")

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = field(
            Array("AlterShareGroupOffsetsRequestPartition"), "0+"
        )

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")


class AlterShareGroupOffsetsResponse(Message):
    """Result for every partition."""

    API_KEY = 91
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(Array("AlterShareGroupOffsetsResponseTopic"), "0+")

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field(String, "0+")
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = field(
            Array("AlterShareGroupOffsetsResponsePartition"), "0+"
        )

    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
