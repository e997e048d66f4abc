"""DeleteAcls, API key 31."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DeleteAclsRequest(Message):
    """Request to delete the ACLs that match filters (KIP-140)."""

    API_KEY = 31
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    filters: list[DeleteAclsFilter] = field(Array("DeleteAclsFilter"), "0+")

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = field(Int8, "0+")
        resource_name_filter: str | None = field(String, "0+", nullable="0+")
        pattern_type_filter: int = field(Int8, "1+", default=3)
        principal_filter: str | None = field(String, "0+", nullable="0+")
        host_filter: str | None = field(String, "0+", nullable="0+")
        operation: int = field(Int8, "0+")
        permission_type: int = field(Int8, "0+")


class DeleteAclsResponse(Message):
    """ACLs deleted, by filter."""

    API_KEY = 31
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    filter_results: list[DeleteAclsFilterResult] = field(Array("DeleteAclsFilterResult"), "0+")

    class DeleteAclsFilterResult(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = field(Array("DeleteAclsMatchingAcl"), "0+")

    class DeleteAclsMatchingAcl(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        pattern_type: int = field(Int8, "1+", default=3)
        principal: str = field(String, "0+")
        host: str = field(String, "0+")
        operation: int = field(Int8, "0+")
        permission_type: int = field(Int8, "0+")
