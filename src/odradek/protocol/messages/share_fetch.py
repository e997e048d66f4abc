"""ShareFetch, API key 78."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    RecordsData,
    String,
    Struct,
    Uuid,
    Versions,
    field,
)


class ShareFetchRequest(Message):
    """Request to acquire records for a member of a share group, and to acknowledge earlier ones (KIP-932)."""

    API_KEY = 78
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str | None = field(String, "0+", nullable="0+", default=None)
    member_id: str | None = field(String, "0+", nullable="0+")
    share_session_epoch: int = field(Int32, "0+")
    max_wait_ms: int = field(Int32, "0+")
    min_bytes: int = field(Int32, "0+")
    max_bytes: int = field(Int32, "0+", default=0x7FFFFFFF)
    max_records: int = field(Int32, "1+")
    batch_size: int = field(Int32, "1+")
    share_acquire_mode: int = field(Int8, "2+", ignorable=True)
    is_renew_ack: bool = field(Bool, "2+")
    topics: list[FetchTopic] = field(Array("FetchTopic"), "0+")
    forgotten_topics_data: list[ForgottenTopic] = field(Array("ForgottenTopic"), "0+")

    class FetchTopic(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ShareFetchRequest.FetchPartition] = field(Array("FetchPartition"), "0+")

    class ForgottenTopic(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")

    class FetchPartition(Struct):
        partition_index: int = field(Int32, "0+")
        partition_max_bytes: int = field(Int32, "0")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = field(Array("AcknowledgementBatch"), "0+")

    class AcknowledgementBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        acknowledge_types: list[int] = field(Array(Int8), "0+")


class ShareFetchResponse(Message):
    """Records, and the ranges of acquired ones."""

    API_KEY = 78
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(Int32, "1+")
    responses: list[ShareFetchableTopicResponse] = field(Array("ShareFetchableTopicResponse"), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "0+")

    class ShareFetchableTopicResponse(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ShareFetchResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "0+")
        host: str = field(String, "0+")
        port: int = field(Int32, "0+")
        rack: str | None = field(String, "0+", nullable="0+", default=None)

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        acknowledge_error_code: int = field(Int16, "0+")
        acknowledge_error_message: str | None = field(String, "0+", nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = field("LeaderIdAndEpoch", "0+")
        records: RecordsData | None = field(Records, "0+", nullable="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = field(Array("AcquiredRecords"), "0+")

    class LeaderIdAndEpoch(Struct):
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")

    class AcquiredRecords(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        delivery_count: int = field(Int16, "0+")
