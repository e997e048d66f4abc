"""ExpireDelegationToken, API key 40."""

from __future__ import annotations

from odradek.protocol.schema import Bytes, Int16, Int32, Int64, Message, Versions, field


class ExpireDelegationTokenRequest(Message):
    """Request to shorten or end the life of a delegation token (KIP-48)."""

    API_KEY = 40
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    hmac: bytes = field(Bytes, "0+")
    expiry_time_period_ms: int = field(Int64, "0+")


class ExpireDelegationTokenResponse(Message):
    """New time of expiry."""

    API_KEY = 40
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    expiry_timestamp_ms: int = field(Int64, "0+")
    throttle_time_ms: int = field(Int32, "0+")
