"""ConsumerGroupHeartbeat, API key 68."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class ConsumerGroupHeartbeatRequest(Message):
    """Request to join, stay in, change or leave a consumer group (KIP-848)."""

    API_KEY = 68
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    member_id: str = field(String, "0+")
    member_epoch: int = field(Int32, "0+")
    instance_id: str | None = field(String, "0+", nullable="0+", default=None)
    rack_id: str | None = field(String, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field(Int32, "0+", default=-1)
    subscribed_topic_names: list[str] | None = field(Array(String), "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(String, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(String, "0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(Array("TopicPartitions"), "0+", nullable="0+", default=None)

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ConsumerGroupHeartbeatResponse(Message):
    """Member epoch, next heartbeat and assignment."""

    API_KEY = 68
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    member_id: str | None = field(String, "0+", nullable="0+", default=None)
    member_epoch: int = field(Int32, "0+")
    heartbeat_interval_ms: int = field(Int32, "0+")
    assignment: Assignment | None = field("Assignment", "0+", nullable="0+", default=None)

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = field(Array("TopicPartitions"), "0+")

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
