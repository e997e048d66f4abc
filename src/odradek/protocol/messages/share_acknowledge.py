"""ShareAcknowledge, API key 79."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ShareAcknowledgeRequest(Message):
    """Request to accept, release, reject or renew acquired records (KIP-932, KIP-1222)."""

    API_KEY = 79
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str | None = field(String, "0+", nullable="0+", default=None)
    member_id: str | None = field(String, "0+", nullable="0+")
    share_session_epoch: int = field(Int32, "0+")
    is_renew_ack: bool = field(Bool, "2+")
    topics: list[AcknowledgeTopic] = field(Array("AcknowledgeTopic"), "0+")

    class AcknowledgeTopic(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = field(Array("AcknowledgePartition"), "0+")

    class AcknowledgePartition(Struct):
        partition_index: int = field(Int32, "0+")
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = field(Array("AcknowledgementBatch"), "0+")

    class AcknowledgementBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        acknowledge_types: list[int] = field(Array(Int8), "0+")


class ShareAcknowledgeResponse(Message):
    """Result for every partition."""

    API_KEY = 79
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(Int32, "2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(Array("ShareAcknowledgeTopicResponse"), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "0+")

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ShareAcknowledgeResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "0+")
        host: str = field(String, "0+")
        port: int = field(Int32, "0+")
        rack: str | None = field(String, "0+", nullable="0+", default=None)

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = field("LeaderIdAndEpoch", "0+")

    class LeaderIdAndEpoch(Struct):
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
