"""BeginQuorumEpoch, API key 53."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Uint16, Uuid, Versions, field


class BeginQuorumEpochRequest(Message):
    """Announcement of a new Raft leader (KIP-595, KIP-853)."""

    API_KEY = 53
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    cluster_id: str | None = field(String, "0+", nullable="0+", default=None)
    voter_id: int = field(Int32, "1+", ignorable=True, default=-1)
    topics: list[TopicData] = field(Array("TopicData"), "0+")
    leader_endpoints: list[LeaderEndpoint] = field(Array("LeaderEndpoint"), "1+", ignorable=True)

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[BeginQuorumEpochRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class LeaderEndpoint(Struct):
        name: str = field(String, "1+")
        host: str = field(String, "1+")
        port: int = field(Uint16, "1+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        voter_directory_id: UUID = field(Uuid, "1+", ignorable=True)
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")


class BeginQuorumEpochResponse(Message):
    """Leader and epoch as the voter knows them."""

    API_KEY = 53
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    error_code: int = field(Int16, "0+")
    topics: list[TopicData] = field(Array("TopicData"), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "1+", tag=0)

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[BeginQuorumEpochResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "1+")
        host: str = field(String, "1+")
        port: int = field(Uint16, "1+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
