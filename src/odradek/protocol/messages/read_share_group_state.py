"""ReadShareGroupState, API key 84."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ReadShareGroupStateRequest(Message):
    """Share-partition leader's request to the share coordinator to read the state (KIP-932)."""

    API_KEY = 84
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[ReadStateData] = field(Array("ReadStateData"), "0+")

    class ReadStateData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ReadShareGroupStateRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")


class ReadShareGroupStateResponse(Message):
    """Start offset and record states by partition."""

    API_KEY = 84
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    results: list[ReadStateResult] = field(Array("ReadStateResult"), "0+")

    class ReadStateResult(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        state_epoch: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = field(Array("StateBatch"), "0+")

    class StateBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        delivery_state: int = field(Int8, "0+")
        delivery_count: int = field(Int16, "0+")
