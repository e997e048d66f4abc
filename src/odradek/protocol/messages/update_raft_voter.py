"""UpdateRaftVoter, API key 82."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uint16, Uuid, Versions, field


class UpdateRaftVoterRequest(Message):
    """Voter's update of its endpoints and Raft versions (KIP-853)."""

    API_KEY = 82
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str | None = field(String, "0+", nullable="0+")
    current_leader_epoch: int = field(Int32, "0+")
    voter_id: int = field(Int32, "0+")
    voter_directory_id: UUID = field(Uuid, "0+")
    listeners: list[Listener] = field(Array("Listener"), "0+")
    k_raft_version_feature: KRaftVersionFeature = field("KRaftVersionFeature", "0+")

    class Listener(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class UpdateRaftVoterResponse(Message):
    """Result, and the current leader."""

    API_KEY = 82
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    current_leader: CurrentLeader = field("CurrentLeader", "0+", tag=0)

    class CurrentLeader(Struct):
        leader_id: int = field(Int32, "0+", default=-1)
        leader_epoch: int = field(Int32, "0+", default=-1)
        host: str = field(String, "0+")
        port: int = field(Int32, "0+")
