"""Vote, API key 52."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Uint16, Uuid, Versions, field


class VoteRequest(Message):
    """Vote request of a Raft candidate or pre-candidate (KIP-595, KIP-996)."""

    API_KEY = 52
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    cluster_id: str | None = field(String, "0+", nullable="0+", default=None)
    voter_id: int = field(Int32, "1+", ignorable=True, default=-1)
    topics: list[TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[VoteRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        replica_epoch: int = field(Int32, "0+")
        replica_id: int = field(Int32, "0+")
        replica_directory_id: UUID = field(Uuid, "1+", ignorable=True)
        voter_directory_id: UUID = field(Uuid, "1+", ignorable=True)
        last_offset_epoch: int = field(Int32, "0+")
        last_offset: int = field(Int64, "0+")
        pre_vote: bool = field(Bool, "2+")


class VoteResponse(Message):
    """Vote, and the current leader."""

    API_KEY = 52
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    error_code: int = field(Int16, "0+")
    topics: list[TopicData] = field(Array("TopicData"), "0+")
    node_endpoints: list[NodeEndpoint] = field(Array("NodeEndpoint"), "1+", tag=0)

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[VoteResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class NodeEndpoint(Struct):
        node_id: int = field(Int32, "1+")
        host: str = field(String, "1+")
        port: int = field(Uint16, "1+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        vote_granted: bool = field(Bool, "0+")
