"""InitializeShareGroupState, API key 83."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class InitializeShareGroupStateRequest(Message):
    """Group coordinator's request to the share coordinator to create the state of share partitions (KIP-932)."""

    API_KEY = 83
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[InitializeStateData] = field(Array("InitializeStateData"), "0+")

    class InitializeStateData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition: int = field(Int32, "0+")
        state_epoch: int = field(Int32, "0+")
        start_offset: int = field(Int64, "0+")


class InitializeShareGroupStateResponse(Message):
    """Result for every partition."""

    API_KEY = 83
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    results: list[InitializeStateResult] = field(Array("InitializeStateResult"), "0+")

    class InitializeStateResult(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
