"""CreateDelegationToken, API key 38."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, String, Struct, Versions, field


class CreateDelegationTokenRequest(Message):
    """Request to create a delegation token (KIP-48, KIP-373)."""

    API_KEY = 38
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    owner_principal_type: str | None = field(String, "3+", nullable="3+")
    owner_principal_name: str | None = field(String, "3+", nullable="3+")
    renewers: list[CreatableRenewers] = field(Array("CreatableRenewers"), "0+")
    max_lifetime_ms: int = field(Int64, "0+")

    class CreatableRenewers(Struct):
        principal_type: str = field(String, "0+")
        principal_name: str = field(String, "0+")


class CreateDelegationTokenResponse(Message):
    """Token with its secret."""

    API_KEY = 38
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    principal_type: str = field(String, "0+")
    principal_name: str = field(String, "0+")
    token_requester_principal_type: str = field(String, "3+")
    token_requester_principal_name: str = field(String, "3+")
    issue_timestamp_ms: int = field(Int64, "0+")
    expiry_timestamp_ms: int = field(Int64, "0+")
    max_timestamp_ms: int = field(Int64, "0+")
    token_id: str = field(String, "0+")
    hmac: bytes = field(Bytes, "0+")
    throttle_time_ms: int = field(Int32, "0+")
