"""DeleteShareGroupState, API key 86."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class DeleteShareGroupStateRequest(Message):
    """Group coordinator's request to the share coordinator to delete the state of share partitions (KIP-932)."""

    API_KEY = 86
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[DeleteStateData] = field(Array("DeleteStateData"), "0+")

    class DeleteStateData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition: int = field(Int32, "0+")


class DeleteShareGroupStateResponse(Message):
    """Result for every partition."""

    API_KEY = 86
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    results: list[DeleteStateResult] = field(Array("DeleteStateResult"), "0+")

    class DeleteStateResult(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
