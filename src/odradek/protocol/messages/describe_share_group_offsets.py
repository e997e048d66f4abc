"""DescribeShareGroupOffsets, API key 90."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class DescribeShareGroupOffsetsRequest(Message):
    """Request for the start offsets of share groups (KIP-932, KIP-1226)."""

    API_KEY = 90
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(Array("DescribeShareGroupOffsetsRequestGroup"), "0+")

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = field(String, "0+")
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = field(
            Array("DescribeShareGroupOffsetsRequestTopic"), "0+", nullable="0+"
        )

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class DescribeShareGroupOffsetsResponse(Message):
    """Start offsets, and lag since version 1, by partition."""

    API_KEY = 90
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(Array("DescribeShareGroupOffsetsResponseGroup"), "0+")

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = field(String, "0+")
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = field(
            Array("DescribeShareGroupOffsetsResponseTopic"), "0+"
        )
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field(String, "0+")
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = field(
            Array("DescribeShareGroupOffsetsResponsePartition"), "0+"
        )

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")
        leader_epoch: int = field(Int32, "0+")
        lag: int = field(Int64, "1+", ignorable=True, default=-1)
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
