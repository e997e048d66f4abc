"""Produce, API key 0."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, Records, RecordsData, String, Struct, Uuid, Versions, field


class ProduceRequest(Message):
    """Record batches to append, by topic and partition (KIP-98, KIP-890; topic ids since KIP-516)."""

    API_KEY = 0
    VALID_VERSIONS = Versions(3, 13)
    FLEXIBLE_VERSIONS = Versions.since(9)

    transactional_id: str | None = field(String, "3+", nullable="3+", default=None)
    acks: int = field(Int16, "0+")
    timeout_ms: int = field(Int32, "0+")
    topic_data: list[TopicProduceData] = field(Array("TopicProduceData"), "0+")

    class TopicProduceData(Struct):
        name: str = field(String, "0-12", ignorable=True)
        topic_id: UUID = field(Uuid, "13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = field(Array("PartitionProduceData"), "0+")

    class PartitionProduceData(Struct):
        index: int = field(Int32, "0+")
        records: RecordsData | None = field(Records, "0+", nullable="0+")


class ProduceResponse(Message):
    """Offset or error of each batch, and the current leader for batches sent to a former one (KIP-951)."""

    API_KEY = 0
    VALID_VERSIONS = Versions(3, 13)
    FLEXIBLE_VERSIONS = Versions.since(9)

    responses: list[TopicProduceResponse] = field(Array("TopicProduceResponse"), "0+")
    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "10+", tag=0)

    class TopicProduceResponse(Struct):
        name: str = field(String, "0-12", ignorable=True)
        topic_id: UUID = field(Uuid, "13+", ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = field(Array("PartitionProduceResponse"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "10+")
        host: str = field(String, "10+")
        port: int = field(Int32, "10+")
        rack: str | None = field(String, "10+", nullable="10+", default=None)

    class PartitionProduceResponse(Struct):
        index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        base_offset: int = field(Int64, "0+")
        log_append_time_ms: int = field(Int64, "2+", ignorable=True, default=-1)
        log_start_offset: int = field(Int64, "5+", ignorable=True, default=-1)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = field(Array("BatchIndexAndErrorMessage"), "8+", ignorable=True)
        error_message: str | None = field(String, "8+", nullable="8+", ignorable=True, default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch = field("LeaderIdAndEpoch", "10+", tag=0)

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int = field(Int32, "8+")
        batch_index_error_message: str | None = field(String, "8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = field(Int32, "10+", default=-1)
        leader_epoch: int = field(Int32, "10+", default=-1)
