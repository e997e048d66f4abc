"""AlterClientQuotas, API key 49."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Float64, Int16, Int32, Message, String, Struct, Versions, field


class AlterClientQuotasRequest(Message):
    """Request to set or remove quotas of client entities (KIP-546)."""

    API_KEY = 49
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    entries: list[EntryData] = field(Array("EntryData"), "0+")
    validate_only: bool = field(Bool, "0+")

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = field(Array("EntityData"), "0+")
        ops: list[AlterClientQuotasRequest.OpData] = field(Array("OpData"), "0+")

    class EntityData(Struct):
        entity_type: str = field(String, "0+")
        entity_name: str | None = field(String, "0+", nullable="0+")

    class OpData(Struct):
        key: str = field(String, "0+")
        value: float = field(Float64, "0+")
        remove: bool = field(Bool, "0+")


class AlterClientQuotasResponse(Message):
    """Result for every entity."""

    API_KEY = 49
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    throttle_time_ms: int = field(Int32, "0+")
    entries: list[EntryData] = field(Array("EntryData"), "0+")

    class EntryData(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = field(Array("EntityData"), "0+")

    class EntityData(Struct):
        entity_type: str = field(String, "0+")
        entity_name: str | None = field(String, "0+", nullable="0+")
