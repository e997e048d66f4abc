"""DescribeDelegationToken, API key 41."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bytes, Int16, Int32, Int64, Message, String, Struct, Versions, field


class DescribeDelegationTokenRequest(Message):
    """Request for delegation tokens by owner (KIP-48)."""

    API_KEY = 41
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    owners: list[DescribeDelegationTokenOwner] | None = field(Array("DescribeDelegationTokenOwner"), "0+", nullable="0+")

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = field(String, "0+")
        principal_name: str = field(String, "0+")


class DescribeDelegationTokenResponse(Message):
    """Tokens with owners, renewers and times."""

    API_KEY = 41
    VALID_VERSIONS = Versions(1, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    tokens: list[DescribedDelegationToken] = field(Array("DescribedDelegationToken"), "0+")
    throttle_time_ms: int = field(Int32, "0+")

    class DescribedDelegationToken(Struct):
        principal_type: str = field(String, "0+")
        principal_name: str = field(String, "0+")
        token_requester_principal_type: str = field(String, "3+")
        token_requester_principal_name: str = field(String, "3+")
        issue_timestamp: int = field(Int64, "0+")
        expiry_timestamp: int = field(Int64, "0+")
        max_timestamp: int = field(Int64, "0+")
        token_id: str = field(String, "0+")
        hmac: bytes = field(Bytes, "0+")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = field(
            Array("DescribedDelegationTokenRenewer"), "0+"
        )

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = field(String, "0+")
        principal_name: str = field(String, "0+")
