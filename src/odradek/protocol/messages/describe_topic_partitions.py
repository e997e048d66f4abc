"""DescribeTopicPartitions, API key 75."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class DescribeTopicPartitionsRequest(Message):
    """Request for topics page by page, with eligible leader replicas (KIP-966)."""

    API_KEY = 75
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topics: list[TopicRequest] = field(Array("TopicRequest"), "0+")
    response_partition_limit: int = field(Int32, "0+", default=2000)
    cursor: Cursor | None = field("Cursor", "0+", nullable="0+", default=None)

    class TopicRequest(Struct):
        name: str = field(String, "0+")

    class Cursor(Struct):
        topic_name: str = field(String, "0+")
        partition_index: int = field(Int32, "0+")


class DescribeTopicPartitionsResponse(Message):
    """Partitions, and the cursor of the next page."""

    API_KEY = 75
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(Array("DescribeTopicPartitionsResponseTopic"), "0+")
    next_cursor: Cursor | None = field("Cursor", "0+", nullable="0+", default=None)

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = field(Int16, "0+")
        name: str | None = field(String, "0+", nullable="0+")
        topic_id: UUID = field(Uuid, "0+", ignorable=True)
        is_internal: bool = field(Bool, "0+", ignorable=True)
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = field(
            Array("DescribeTopicPartitionsResponsePartition"), "0+"
        )
        topic_authorized_operations: int = field(Int32, "0+", default=-2147483648)

    class Cursor(Struct):
        topic_name: str = field(String, "0+")
        partition_index: int = field(Int32, "0+")

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = field(Int16, "0+")
        partition_index: int = field(Int32, "0+")
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+", ignorable=True, default=-1)
        replica_nodes: list[int] = field(Array(Int32), "0+")
        isr_nodes: list[int] = field(Array(Int32), "0+")
        eligible_leader_replicas: list[int] | None = field(Array(Int32), "0+", nullable="0+", default=None)
        last_known_elr: list[int] | None = field(Array(Int32), "0+", nullable="0+", default=None)
        offline_replicas: list[int] = field(Array(Int32), "0+", ignorable=True)
