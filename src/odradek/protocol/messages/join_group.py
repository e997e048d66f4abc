"""JoinGroup, API key 11."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, String, Struct, Versions, field


class JoinGroupRequest(Message):
    """Member's request to join a classic group, with its assignment protocols (KIP-62, KIP-394, KIP-345)."""

    API_KEY = 11
    VALID_VERSIONS = Versions(0, 9)
    FLEXIBLE_VERSIONS = Versions.since(6)

    group_id: str = field(String, "0+")
    session_timeout_ms: int = field(Int32, "0+")
    rebalance_timeout_ms: int = field(Int32, "1+", ignorable=True, default=-1)
    member_id: str = field(String, "0+")
    group_instance_id: str | None = field(String, "5+", nullable="5+", default=None)
    protocol_type: str = field(String, "0+")
    protocols: list[JoinGroupRequestProtocol] = field(Array("JoinGroupRequestProtocol"), "0+")
    reason: str | None = field(String, "8+", nullable="8+", ignorable=True, default=None)

    class JoinGroupRequestProtocol(Struct):
        name: str = field(String, "0+")
        metadata: bytes = field(Bytes, "0+")


class JoinGroupResponse(Message):
    """Generation, chosen protocol, and for the leader all members."""

    API_KEY = 11
    VALID_VERSIONS = Versions(0, 9)
    FLEXIBLE_VERSIONS = Versions.since(6)

    throttle_time_ms: int = field(Int32, "2+", ignorable=True)
    error_code: int = field(Int16, "0+")
    generation_id: int = field(Int32, "0+", default=-1)
    protocol_type: str | None = field(String, "7+", nullable="7+", ignorable=True, default=None)
    protocol_name: str | None = field(String, "0+", nullable="7+")
    leader: str = field(String, "0+")
    skip_assignment: bool = field(Bool, "9+")
    member_id: str = field(String, "0+")
    members: list[JoinGroupResponseMember] = field(Array("JoinGroupResponseMember"), "0+")

    class JoinGroupResponseMember(Struct):
        member_id: str = field(String, "0+")
        group_instance_id: str | None = field(String, "5+", nullable="5+", ignorable=True, default=None)
        metadata: bytes = field(Bytes, "0+")
