"""CreateAcls, API key 30."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class CreateAclsRequest(Message):
    """Request to create ACLs (KIP-140)."""

    API_KEY = 30
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    creations: list[AclCreation] = field(Array("AclCreation"), "0+")

    class AclCreation(Struct):
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        resource_pattern_type: int = field(Int8, "1+", default=3)
        principal: str = field(String, "0+")
        host: str = field(String, "0+")
        operation: int = field(Int8, "0+")
        permission_type: int = field(Int8, "0+")


class CreateAclsResponse(Message):
    """Result for every ACL."""

    API_KEY = 30
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[AclCreationResult] = field(Array("AclCreationResult"), "0+")

    class AclCreationResult(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
