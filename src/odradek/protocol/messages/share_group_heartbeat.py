"""ShareGroupHeartbeat, API key 76."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class ShareGroupHeartbeatRequest(Message):
    """Request to join, stay in or leave a share group (KIP-932)."""

    API_KEY = 76
    VALID_VERSIONS = Versions(1, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    member_id: str = field(String, "0+")
    member_epoch: int = field(Int32, "0+")
    rack_id: str | None = field(String, "0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(Array(String), "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Message):
    """Member epoch, next heartbeat and assignment."""

    API_KEY = 76
    VALID_VERSIONS = Versions(1, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    member_id: str | None = field(String, "0+", nullable="0+", default=None)
    member_epoch: int = field(Int32, "0+")
    heartbeat_interval_ms: int = field(Int32, "0+")
    assignment: Assignment | None = field("Assignment", "0+", nullable="0+", default=None)

    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = field(Array("TopicPartitions"), "0+")

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
