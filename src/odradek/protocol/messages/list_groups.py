"""ListGroups, API key 16."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class ListGroupsRequest(Message):
    """Request for the groups a broker coordinates, by state and type (KIP-518, KIP-848)."""

    API_KEY = 16
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    states_filter: list[str] = field(Array(String), "4+")
    types_filter: list[str] = field(Array(String), "5+")


class ListGroupsResponse(Message):
    """Groups by name, with state and type."""

    API_KEY = 16
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0+")
    groups: list[ListedGroup] = field(Array("ListedGroup"), "0+")

    class ListedGroup(Struct):
        group_id: str = field(String, "0+")
        protocol_type: str = field(String, "0+")
        group_state: str = field(String, "4+", ignorable=True)
        group_type: str = field(String, "5+", ignorable=True)
