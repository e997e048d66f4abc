"""RenewDelegationToken, API key 39."""

from __future__ import annotations

from odradek.protocol.schema import Bytes, Int16, Int32, Int64, Message, Versions, field


class RenewDelegationTokenRequest(Message):
    """Request to prolong a delegation token (KIP-48)."""

    API_KEY = 39
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    hmac: bytes = field(Bytes, "0+")
    renew_period_ms: int = field(Int64, "0+")


class RenewDelegationTokenResponse(Message):
    """New time of expiry."""

    API_KEY = 39
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    expiry_timestamp_ms: int = field(Int64, "0+")
    throttle_time_ms: int = field(Int32, "0+")
