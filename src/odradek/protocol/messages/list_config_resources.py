"""ListConfigResources, API key 74."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class ListConfigResourcesRequest(Message):
    """Request for the names of configurable resources by type (KIP-1142; version 0 is ListClientMetricsResources of KIP-714)."""

    API_KEY = 74
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    resource_types: list[int] = field(Array(Int8), "1+")


class ListConfigResourcesResponse(Message):
    """Resources."""

    API_KEY = 74
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    config_resources: list[ConfigResource] = field(Array("ConfigResource"), "0+")

    class ConfigResource(Struct):
        resource_name: str = field(String, "0+")
        resource_type: int = field(Int8, "1+", ignorable=True, default=16)
