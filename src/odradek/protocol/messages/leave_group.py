"""LeaveGroup, API key 13."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class LeaveGroupRequest(Message):
    """Request of members to leave a classic group (several at once since KIP-345)."""

    API_KEY = 13
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(4)

    group_id: str = field(String, "0+")
    member_id: str = field(String, "0-2")
    members: list[MemberIdentity] = field(Array("MemberIdentity"), "3+")

    class MemberIdentity(Struct):
        member_id: str = field(String, "3+")
        group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
        reason: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)


class LeaveGroupResponse(Message):
    """Result for every member."""

    API_KEY = 13
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0+")
    members: list[MemberResponse] = field(Array("MemberResponse"), "3+")

    class MemberResponse(Struct):
        member_id: str = field(String, "3+")
        group_instance_id: str | None = field(String, "3+", nullable="3+")
        error_code: int = field(Int16, "3+")
