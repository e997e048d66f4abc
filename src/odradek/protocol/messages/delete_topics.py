"""DeleteTopics, API key 20."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class DeleteTopicsRequest(Message):
    """Request to delete topics by name or id (KIP-4, KIP-516)."""

    API_KEY = 20
    VALID_VERSIONS = Versions(1, 6)
    FLEXIBLE_VERSIONS = Versions.since(4)

    topics: list[DeleteTopicState] = field(Array("DeleteTopicState"), "6+")
    topic_names: list[str] = field(Array(String), "0-5", ignorable=True)
    timeout_ms: int = field(Int32, "0+")

    class DeleteTopicState(Struct):
        name: str | None = field(String, "6+", nullable="6+", default=None)
        topic_id: UUID = field(Uuid, "6+")


class DeleteTopicsResponse(Message):
    """Result for every topic."""

    API_KEY = 20
    VALID_VERSIONS = Versions(1, 6)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    responses: list[DeletableTopicResult] = field(Array("DeletableTopicResult"), "0+")

    class DeletableTopicResult(Struct):
        name: str | None = field(String, "0+", nullable="6+")
        topic_id: UUID = field(Uuid, "6+", ignorable=True)
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
