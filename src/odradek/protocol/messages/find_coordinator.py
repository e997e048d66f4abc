"""FindCoordinator, API key 10."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class FindCoordinatorRequest(Message):
    """Request for the coordinators of groups, transactional ids or share partitions (KIP-98, KIP-699, KIP-932)."""

    API_KEY = 10
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(3)

    key: str = field(String, "0-3")
    key_type: int = field(Int8, "1+")
    coordinator_keys: list[str] = field(Array(String), "4+")


class FindCoordinatorResponse(Message):
    """Coordinators found."""

    API_KEY = 10
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0-3")
    error_message: str | None = field(String, "1-3", nullable="1-3", ignorable=True)
    node_id: int = field(Int32, "0-3")
    host: str = field(String, "0-3")
    port: int = field(Int32, "0-3")
    coordinators: list[Coordinator] = field(Array("Coordinator"), "4+")

    class Coordinator(Struct):
        key: str = field(String, "4+")
        node_id: int = field(Int32, "4+")
        host: str = field(String, "4+")
        port: int = field(Int32, "4+")
        error_code: int = field(Int16, "4+")
        error_message: str | None = field(String, "4+", nullable="4+", ignorable=True)
