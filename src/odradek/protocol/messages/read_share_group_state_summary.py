"""ReadShareGroupStateSummary, API key 87."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ReadShareGroupStateSummaryRequest(Message):
    """Group coordinator's request to the share coordinator to read start offsets and epochs (KIP-932, KIP-1226)."""

    API_KEY = 87
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[ReadStateSummaryData] = field(Array("ReadStateSummaryData"), "0+")

    class ReadStateSummaryData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")


class ReadShareGroupStateSummaryResponse(Message):
    """Start offsets and epochs by partition."""

    API_KEY = 87
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    results: list[ReadStateSummaryResult] = field(Array("ReadStateSummaryResult"), "0+")

    class ReadStateSummaryResult(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        state_epoch: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")
        delivery_complete_count: int = field(Int32, "1+", ignorable=True, default=-1)
