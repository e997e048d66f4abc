"""Control records of a Raft log and of its snapshots (KIP-595, KIP-630, KIP-853), and the quorum-state file."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uint16, Uuid, Versions, field


class LeaderChangeMessage(Message):
    """Control record: an elected Raft leader and its voters (KIP-595)."""

    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    version: int = field(Int16, "0+")
    leader_id: int = field(Int32, "0+")
    voters: list[Voter] = field(Array("Voter"), "0+")
    granting_voters: list[Voter] = field(Array("Voter"), "0+")

    class Voter(Struct):
        voter_id: int = field(Int32, "0+")
        voter_directory_id: UUID = field(Uuid, "1+")


class SnapshotHeaderRecord(Message):
    """Control record: the start of a snapshot (KIP-630)."""

    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    version: int = field(Int16, "0+")
    last_contained_log_timestamp: int = field(Int64, "0+")


class SnapshotFooterRecord(Message):
    """Control record: the end of a snapshot (KIP-630)."""

    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    version: int = field(Int16, "0+")


class KRaftVersionRecord(Message):
    """Control record: the feature level kraft.version (KIP-853)."""

    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    version: int = field(Int16, "0+")
    k_raft_version: int = field(Int16, "0+")


class VotersRecord(Message):
    """Control record: the voters of the Raft quorum (KIP-853)."""

    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    version: int = field(Int16, "0+")
    voters: list[Voter] = field(Array("Voter"), "0+")

    class Voter(Struct):
        voter_id: int = field(Int32, "0+")
        voter_directory_id: UUID = field(Uuid, "0+")
        endpoints: list[VotersRecord.Endpoint] = field(Array("Endpoint"), "0+")
        k_raft_version_feature: VotersRecord.KRaftVersionFeature = field("KRaftVersionFeature", "0+")

    class Endpoint(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class QuorumStateData(Message):
    """Content of the file quorum-state, stored as JSON (KIP-595, KIP-853)."""

    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str = field(String, "0")
    leader_id: int = field(Int32, "0+", default=-1)
    leader_epoch: int = field(Int32, "0+", default=-1)
    voted_id: int = field(Int32, "0+", default=-1)
    voted_directory_id: UUID = field(Uuid, "1+")
    applied_offset: int = field(Int64, "0")
    current_voters: list[Voter] | None = field(Array("Voter"), "0", nullable="0")

    class Voter(Struct):
        voter_id: int = field(Int32, "0")
