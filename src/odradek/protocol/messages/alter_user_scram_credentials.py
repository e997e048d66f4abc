"""AlterUserScramCredentials, API key 51."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bytes, Int8, Int16, Int32, Message, String, Struct, Versions, field


class AlterUserScramCredentialsRequest(Message):
    """Request to set or delete SCRAM credentials (KIP-554)."""

    API_KEY = 51
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    deletions: list[ScramCredentialDeletion] = field(Array("ScramCredentialDeletion"), "0+")
    upsertions: list[ScramCredentialUpsertion] = field(Array("ScramCredentialUpsertion"), "0+")

    class ScramCredentialDeletion(Struct):
        name: str = field(String, "0+")
        mechanism: int = field(Int8, "0+")

    class ScramCredentialUpsertion(Struct):
        name: str = field(String, "0+")
        mechanism: int = field(Int8, "0+")
        iterations: int = field(Int32, "0+")
        salt: bytes = field(Bytes, "0+")
        salted_password: bytes = field(Bytes, "0+")


class AlterUserScramCredentialsResponse(Message):
    """Result for every user."""

    API_KEY = 51
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[AlterUserScramCredentialsResult] = field(Array("AlterUserScramCredentialsResult"), "0+")

    class AlterUserScramCredentialsResult(Struct):
        user: str = field(String, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
