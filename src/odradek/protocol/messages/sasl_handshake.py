"""SaslHandshake, API key 17."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Message, String, Versions, field


class SaslHandshakeRequest(Message):
    """Request to choose the SASL mechanism of a connection (KIP-43, KIP-152)."""

    API_KEY = 17
    VALID_VERSIONS = Versions(0, 1)

    mechanism: str = field(String, "0+")


class SaslHandshakeResponse(Message):
    """Mechanisms that the broker accepts."""

    API_KEY = 17
    VALID_VERSIONS = Versions(0, 1)

    error_code: int = field(Int16, "0+")
    mechanisms: list[str] = field(Array(String), "0+")
