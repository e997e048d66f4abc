"""FetchSnapshot, API key 59."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, Records, RecordsData, String, Struct, Uint16, Uuid, Versions, field


class FetchSnapshotRequest(Message):
    """Request for a chunk of a metadata snapshot (KIP-630)."""

    API_KEY = 59
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str | None = field(String, "0+", nullable="0+", tag=0, default=None)
    replica_id: int = field(Int32, "0+", default=-1)
    max_bytes: int = field(Int32, "0+", default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = field(Array("TopicSnapshot"), "0+")

    class TopicSnapshot(Struct):
        name: str = field(String, "0+")
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = field(Array("PartitionSnapshot"), "0+")

    class PartitionSnapshot(Struct):
        partition: int = field(Int32, "0+")
        current_leader_epoch: int = field(Int32, "0+")
        snapshot_id: FetchSnapshotRequest.SnapshotId = field("SnapshotId", "0+")
        position: int = field(Int64, "0+")
        replica_directory_id: UUID = field(Uuid, "1+", tag=0, ignorable=True)

    class SnapshotId(Struct):
        end_offset: int = field(Int64, "0+")
        epoch: int = field(Int32, "0+")


class FetchSnapshotResponse(Message):
    """Bytes at the requested position."""

    API_KEY = 59
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+", ignorable=True)
    error_code: int = field(Int16, "0+")
    topics: list[TopicSnapshot] = field(Array("TopicSnapshot"), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "1+", tag=0)

    class TopicSnapshot(Struct):
        name: str = field(String, "0+")
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = field(Array("PartitionSnapshot"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "1+")
        host: str = field(String, "1+")
        port: int = field(Uint16, "1+")

    class PartitionSnapshot(Struct):
        index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        snapshot_id: FetchSnapshotResponse.SnapshotId = field("SnapshotId", "0+")
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = field("LeaderIdAndEpoch", "0+", tag=0)
        size: int = field(Int64, "0+")
        position: int = field(Int64, "0+")
        unaligned_records: RecordsData | None = field(Records, "0+")

    class SnapshotId(Struct):
        end_offset: int = field(Int64, "0+")
        epoch: int = field(Int32, "0+")

    class LeaderIdAndEpoch(Struct):
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
