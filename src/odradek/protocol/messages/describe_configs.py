"""DescribeConfigs, API key 32."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DescribeConfigsRequest(Message):
    """Request for the configuration of topics, brokers, groups and clients (KIP-133, KIP-226)."""

    API_KEY = 32
    VALID_VERSIONS = Versions(1, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    resources: list[DescribeConfigsResource] = field(Array("DescribeConfigsResource"), "0+")
    include_synonyms: bool = field(Bool, "1+")
    include_documentation: bool = field(Bool, "3+")

    class DescribeConfigsResource(Struct):
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        configuration_keys: list[str] | None = field(Array(String), "0+", nullable="0+")


class DescribeConfigsResponse(Message):
    """Values with their source, synonyms, type and documentation."""

    API_KEY = 32
    VALID_VERSIONS = Versions(1, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[DescribeConfigsResult] = field(Array("DescribeConfigsResult"), "0+")

    class DescribeConfigsResult(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        resource_type: int = field(Int8, "0+")
        resource_name: str = field(String, "0+")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = field(Array("DescribeConfigsResourceResult"), "0+")

    class DescribeConfigsResourceResult(Struct):
        name: str = field(String, "0+")
        value: str | None = field(String, "0+", nullable="0+")
        read_only: bool = field(Bool, "0+")
        config_source: int = field(Int8, "1+", ignorable=True, default=-1)
        is_sensitive: bool = field(Bool, "0+")
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = field(Array("DescribeConfigsSynonym"), "1+", ignorable=True)
        config_type: int = field(Int8, "3+", ignorable=True)
        documentation: str | None = field(String, "3+", nullable="0+", ignorable=True)

    class DescribeConfigsSynonym(Struct):
        name: str = field(String, "1+")
        value: str | None = field(String, "1+", nullable="0+")
        source: int = field(Int8, "1+")
