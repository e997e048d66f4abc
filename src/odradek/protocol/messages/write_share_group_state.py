"""WriteShareGroupState, API key 85."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class WriteShareGroupStateRequest(Message):
    """Share-partition leader's request to the share coordinator to store changed state (KIP-932, KIP-1226)."""

    API_KEY = 85
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[WriteStateData] = field(Array("WriteStateData"), "0+")

    class WriteStateData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[WriteShareGroupStateRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition: int = field(Int32, "0+")
        state_epoch: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")
        delivery_complete_count: int = field(Int32, "1+", ignorable=True, default=-1)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = field(Array("StateBatch"), "0+")

    class StateBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        delivery_state: int = field(Int8, "0+")
        delivery_count: int = field(Int16, "0+")


class WriteShareGroupStateResponse(Message):
    """Result for every partition."""

    API_KEY = 85
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    results: list[WriteStateResult] = field(Array("WriteStateResult"), "0+")

    class WriteStateResult(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
