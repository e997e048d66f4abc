"""AddRaftVoter, API key 80."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Uint16, Uuid, Versions, field


class AddRaftVoterRequest(Message):
    """Request to add a voter to the Raft quorum (KIP-853)."""

    API_KEY = 80
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str | None = field(String, "0+", nullable="0+")
    timeout_ms: int = field(Int32, "0+")
    voter_id: int = field(Int32, "0+")
    voter_directory_id: UUID = field(Uuid, "0+")
    listeners: list[Listener] = field(Array("Listener"), "0+")
    ack_when_committed: bool = field(Bool, "1+", default=True)

    class Listener(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")


class AddRaftVoterResponse(Message):
    """Result."""

    API_KEY = 80
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", ignorable=True)
