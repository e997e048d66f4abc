"""SyncGroup, API key 14."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bytes, Int16, Int32, Message, String, Struct, Versions, field


class SyncGroupRequest(Message):
    """Request with the assignment from the group's leader, or for it from the other members (KIP-559)."""

    API_KEY = 14
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(4)

    group_id: str = field(String, "0+")
    generation_id: int = field(Int32, "0+")
    member_id: str = field(String, "0+")
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(Array("SyncGroupRequestAssignment"), "0+")

    class SyncGroupRequestAssignment(Struct):
        member_id: str = field(String, "0+")
        assignment: bytes = field(Bytes, "0+")


class SyncGroupResponse(Message):
    """Assignment of the member."""

    API_KEY = 14
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0+")
    protocol_type: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
    assignment: bytes = field(Bytes, "0+")
