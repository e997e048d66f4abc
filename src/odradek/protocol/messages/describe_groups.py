"""DescribeGroups, API key 15."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, String, Struct, Versions, field


class DescribeGroupsRequest(Message):
    """Request for the state and members of classic groups."""

    API_KEY = 15
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(5)

    groups: list[str] = field(Array(String), "0+")
    include_authorized_operations: bool = field(Bool, "3+")


class DescribeGroupsResponse(Message):
    """State, protocol and members of each group."""

    API_KEY = 15
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(5)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    groups: list[DescribedGroup] = field(Array("DescribedGroup"), "0+")

    class DescribedGroup(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "6+", nullable="6+", default=None)
        group_id: str = field(String, "0+")
        group_state: str = field(String, "0+")
        protocol_type: str = field(String, "0+")
        protocol_data: str = field(String, "0+")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = field(Array("DescribedGroupMember"), "0+")
        authorized_operations: int = field(Int32, "3+", default=-2147483648)

    class DescribedGroupMember(Struct):
        member_id: str = field(String, "0+")
        group_instance_id: str | None = field(String, "4+", nullable="4+", ignorable=True, default=None)
        client_id: str = field(String, "0+")
        client_host: str = field(String, "0+")
        member_metadata: bytes = field(Bytes, "0+")
        member_assignment: bytes = field(Bytes, "0+")
