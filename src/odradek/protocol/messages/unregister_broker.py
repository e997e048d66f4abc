"""UnregisterBroker, API key 64."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Message, String, Versions, field


class UnregisterBrokerRequest(Message):
    """Request to remove the registration of a broker (KIP-631)."""

    API_KEY = 64
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")


class UnregisterBrokerResponse(Message):
    """Result."""

    API_KEY = 64
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
