"""ApiVersions, API key 18."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Versions, field


class ApiVersionsRequest(Message):
    """Request for the APIs and versions of the peer, with the client's software (KIP-35, KIP-511)."""

    API_KEY = 18
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(3)

    client_software_name: str = field(String, "3+", ignorable=True)
    client_software_version: str = field(String, "3+", ignorable=True)


class ApiVersionsResponse(Message):
    """Version ranges by API, and the features of the cluster (KIP-584)."""

    API_KEY = 18
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(3)

    error_code: int = field(Int16, "0+")
    api_keys: list[ApiVersion] = field(Array("ApiVersion"), "0+")
    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(Array("SupportedFeatureKey"), "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = field(Int64, "3+", tag=1, ignorable=True, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(Array("FinalizedFeatureKey"), "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field(Bool, "3+", tag=3, ignorable=True)

    class ApiVersion(Struct):
        api_key: int = field(Int16, "0+")
        min_version: int = field(Int16, "0+")
        max_version: int = field(Int16, "0+")

    class SupportedFeatureKey(Struct):
        name: str = field(String, "3+")
        min_version: int = field(Int16, "3+")
        max_version: int = field(Int16, "3+")

    class FinalizedFeatureKey(Struct):
        name: str = field(String, "3+")
        max_version_level: int = field(Int16, "3+")
        min_version_level: int = field(Int16, "3+")
