"""DescribeUserScramCredentials, API key 50."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DescribeUserScramCredentialsRequest(Message):
    """Request for the mechanisms of users' SCRAM credentials (KIP-554)."""

    API_KEY = 50
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    users: list[UserName] | None = field(Array("UserName"), "0+", nullable="0+")

    class UserName(Struct):
        name: str = field(String, "0+")


class DescribeUserScramCredentialsResponse(Message):
    """Mechanisms and iteration counts, never secrets."""

    API_KEY = 50
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field(Array("DescribeUserScramCredentialsResult"), "0+")

    class DescribeUserScramCredentialsResult(Struct):
        user: str = field(String, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = field(Array("CredentialInfo"), "0+")

    class CredentialInfo(Struct):
        mechanism: int = field(Int8, "0+")
        iterations: int = field(Int32, "0+")
