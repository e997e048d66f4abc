"""DeleteShareGroupOffsets, API key 92."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class DeleteShareGroupOffsetsRequest(Message):
    """Request to delete the offsets of topics from an empty share group (KIP-932)."""

    API_KEY = 92
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(Array("DeleteShareGroupOffsetsRequestTopic"), "0+")

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field(String, "0+")


class DeleteShareGroupOffsetsResponse(Message):
    """Result for every topic."""

    API_KEY = 92
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(Array("DeleteShareGroupOffsetsResponseTopic"), "0+")

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field(String, "0+")
        topic_id: UUID = field(Uuid, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
