"""IncrementalAlterConfigs, API key 44."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Versions, field


class IncrementalAlterConfigsRequest(Message):
    """Request to set, delete, append to or subtract from single configuration values (KIP-339)."""

    API_KEY = 44
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    resources: list[AlterConfigsResource] = field(Array("AlterConfigsResource"), "0+")
    validate_only: bool = field(Bool, "0+")

    class AlterConfigsResource(Struct):
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = field(Array("AlterableConfig"), "0+")

    class AlterableConfig(Struct):
        name: str = field(String, "0+")
        config_operation: int = field(Int8, "0+")
        value: str | None = field(String, "0+", nullable="0+")


class IncrementalAlterConfigsResponse(Message):
    """Result for every resource."""

    API_KEY = 44
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    throttle_time_ms: int = field(Int32, "0+")
    responses: list[AlterConfigsResourceResponse] = field(Array("AlterConfigsResourceResponse"), "0+")

    class AlterConfigsResourceResponse(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
