"""SaslAuthenticate, API key 36."""

from __future__ import annotations

from odradek.protocol.schema import Bytes, Int16, Int64, Message, String, Versions, field


class SaslAuthenticateRequest(Message):
    """SASL message of the client (KIP-152)."""

    API_KEY = 36
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    auth_bytes: bytes = field(Bytes, "0+")


class SaslAuthenticateResponse(Message):
    """SASL message of the server, and the lifetime of the session (KIP-368)."""

    API_KEY = 36
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    auth_bytes: bytes = field(Bytes, "0+")
    session_lifetime_ms: int = field(Int64, "1+", ignorable=True)
