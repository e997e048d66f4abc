"""DescribeProducers, API key 61."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class DescribeProducersRequest(Message):
    """Request for the producers active on partitions (KIP-664)."""

    API_KEY = 61
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topics: list[TopicRequest] = field(Array("TopicRequest"), "0+")

    class TopicRequest(Struct):
        name: str = field(String, "0+")
        partition_indexes: list[int] = field(Array(Int32), "0+")


class DescribeProducersResponse(Message):
    """Producer states by partition."""

    API_KEY = 61
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    topics: list[TopicResponse] = field(Array("TopicResponse"), "0+")

    class TopicResponse(Struct):
        name: str = field(String, "0+")
        partitions: list[DescribeProducersResponse.PartitionResponse] = field(Array("PartitionResponse"), "0+")

    class PartitionResponse(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = field(Array("ProducerState"), "0+")

    class ProducerState(Struct):
        producer_id: int = field(Int64, "0+")
        producer_epoch: int = field(Int32, "0+")
        last_sequence: int = field(Int32, "0+", default=-1)
        last_timestamp: int = field(Int64, "0+", default=-1)
        coordinator_epoch: int = field(Int32, "0+")
        current_txn_start_offset: int = field(Int64, "0+", default=-1)
