"""RemoveRaftVoter, API key 81."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Int16, Int32, Message, String, Uuid, Versions, field


class RemoveRaftVoterRequest(Message):
    """Request to remove a voter from the Raft quorum (KIP-853)."""

    API_KEY = 81
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str | None = field(String, "0+", nullable="0+")
    voter_id: int = field(Int32, "0+")
    voter_directory_id: UUID = field(Uuid, "0+")


class RemoveRaftVoterResponse(Message):
    """Result."""

    API_KEY = 81
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", ignorable=True)
