"""ShareGroupDescribe, API key 77."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class ShareGroupDescribeRequest(Message):
    """Request for share groups (KIP-932)."""

    API_KEY = 77
    VALID_VERSIONS = Versions(1, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_ids: list[str] = field(Array(String), "0+")
    include_authorized_operations: bool = field(Bool, "0+")


class ShareGroupDescribeResponse(Message):
    """State, epochs, members and assignments of each group."""

    API_KEY = 77
    VALID_VERSIONS = Versions(1, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    groups: list[DescribedGroup] = field(Array("DescribedGroup"), "0+")

    class DescribedGroup(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        group_id: str = field(String, "0+")
        group_state: str = field(String, "0+")
        group_epoch: int = field(Int32, "0+")
        assignment_epoch: int = field(Int32, "0+")
        assignor_name: str = field(String, "0+")
        members: list[ShareGroupDescribeResponse.Member] = field(Array("Member"), "0+")
        authorized_operations: int = field(Int32, "0+", default=-2147483648)

    class Member(Struct):
        member_id: str = field(String, "0+")
        rack_id: str | None = field(String, "0+", nullable="0+", default=None)
        member_epoch: int = field(Int32, "0+")
        client_id: str = field(String, "0+")
        client_host: str = field(String, "0+")
        subscribed_topic_names: list[str] = field(Array(String), "0+")
        assignment: ShareGroupDescribeResponse.Assignment = field("Assignment", "0+")

    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = field(Array("TopicPartitions"), "0+")

    class TopicPartitions(Struct):
        topic_id: UUID = field(Uuid, "0+")
        topic_name: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
