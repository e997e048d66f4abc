"""ControllerRegistration, API key 70."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Uint16, Uuid, Versions, field


class ControllerRegistrationRequest(Message):
    """Registration of a controller with the active one (KIP-919)."""

    API_KEY = 70
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    controller_id: int = field(Int32, "0+")
    incarnation_id: UUID = field(Uuid, "0+")
    zk_migration_ready: bool = field(Bool, "0+")
    listeners: list[Listener] = field(Array("Listener"), "0+")
    features: list[Feature] = field(Array("Feature"), "0+")

    class Listener(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")
        security_protocol: int = field(Int16, "0+")

    class Feature(Struct):
        name: str = field(String, "0+")
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class ControllerRegistrationResponse(Message):
    """Result."""

    API_KEY = 70
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
