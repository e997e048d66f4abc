"""DeleteGroups, API key 42."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class DeleteGroupsRequest(Message):
    """Request to delete empty groups with their offsets (KIP-229)."""

    API_KEY = 42
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    groups_names: list[str] = field(Array(String), "0+")


class DeleteGroupsResponse(Message):
    """Result for every group."""

    API_KEY = 42
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[DeletableGroupResult] = field(Array("DeletableGroupResult"), "0+")

    class DeletableGroupResult(Struct):
        group_id: str = field(String, "0+")
        error_code: int = field(Int16, "0+")
