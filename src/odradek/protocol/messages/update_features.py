"""UpdateFeatures, API key 57."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Versions, field


class UpdateFeaturesRequest(Message):
    """Request to finalize feature levels (KIP-584, KIP-1022)."""

    API_KEY = 57
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    timeout_ms: int = field(Int32, "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field(Array("FeatureUpdateKey"), "0+")
    validate_only: bool = field(Bool, "1+")

    class FeatureUpdateKey(Struct):
        feature: str = field(String, "0+")
        max_version_level: int = field(Int16, "0+")
        allow_downgrade: bool = field(Bool, "0")
        upgrade_type: int = field(Int8, "1+", default=1)


class UpdateFeaturesResponse(Message):
    """Result, by feature in versions before 2."""

    API_KEY = 57
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field(Array("UpdatableFeatureResult"), "0-1", ignorable=True)

    class UpdatableFeatureResult(Struct):
        feature: str = field(String, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
