"""DescribeClientQuotas, API key 48."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Float64, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DescribeClientQuotasRequest(Message):
    """Request for quotas by client entity (KIP-546)."""

    API_KEY = 48
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    components: list[ComponentData] = field(Array("ComponentData"), "0+")
    strict: bool = field(Bool, "0+")

    class ComponentData(Struct):
        entity_type: str = field(String, "0+")
        match_type: int = field(Int8, "0+")
        match: str | None = field(String, "0+", nullable="0+")


class DescribeClientQuotasResponse(Message):
    """Quotas that match."""

    API_KEY = 48
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    entries: list[EntryData] | None = field(Array("EntryData"), "0+", nullable="0+")

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = field(Array("EntityData"), "0+")
        values: list[DescribeClientQuotasResponse.ValueData] = field(Array("ValueData"), "0+")

    class EntityData(Struct):
        entity_type: str = field(String, "0+")
        entity_name: str | None = field(String, "0+", nullable="0+")

    class ValueData(Struct):
        key: str = field(String, "0+")
        value: float = field(Float64, "0+")
