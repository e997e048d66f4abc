"""DescribeAcls, API key 29."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DescribeAclsRequest(Message):
    """Request for ACLs that match a filter (KIP-140, KIP-290)."""

    API_KEY = 29
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    resource_type_filter: int = field(Int8, "0+")
    resource_name_filter: str | None = field(String, "0+", nullable="0+")
    pattern_type_filter: int = field(Int8, "1+", default=3)
    principal_filter: str | None = field(String, "0+", nullable="0+")
    host_filter: str | None = field(String, "0+", nullable="0+")
    operation: int = field(Int8, "0+")
    permission_type: int = field(Int8, "0+")


class DescribeAclsResponse(Message):
    """ACLs by resource."""

    API_KEY = 29
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    resources: list[DescribeAclsResource] = field(Array("DescribeAclsResource"), "0+")

    class DescribeAclsResource(Struct):
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        pattern_type: int = field(Int8, "1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = field(Array("AclDescription"), "0+")

    class AclDescription(Struct):
        principal: str = field(String, "0+")
        host: str = field(String, "0+")
        operation: int = field(Int8, "0+")
        permission_type: int = field(Int8, "0+")
