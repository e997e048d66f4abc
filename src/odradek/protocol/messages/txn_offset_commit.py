"""TxnOffsetCommit, API key 28."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class TxnOffsetCommitRequest(Message):
    """Request to commit offsets of a group as part of a transaction (KIP-98, KIP-447)."""

    API_KEY = 28
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    transactional_id: str = field(String, "0+")
    group_id: str = field(String, "0+")
    producer_id: int = field(Int64, "0+")
    producer_epoch: int = field(Int16, "0+")
    generation_id: int = field(Int32, "3+", default=-1)
    member_id: str = field(String, "3+")
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array("TxnOffsetCommitRequestTopic"), "0+")

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = field(Array("TxnOffsetCommitRequestPartition"), "0+")

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = field(Int32, "0+")
        committed_offset: int = field(Int64, "0+")
        committed_leader_epoch: int = field(Int32, "2+", ignorable=True, default=-1)
        committed_metadata: str | None = field(String, "0+", nullable="0+")


class TxnOffsetCommitResponse(Message):
    """Result for every partition."""

    API_KEY = 28
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "0+")
    topics: list[TxnOffsetCommitResponseTopic] = field(Array("TxnOffsetCommitResponseTopic"), "0+")

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = field(Array("TxnOffsetCommitResponsePartition"), "0+")

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
