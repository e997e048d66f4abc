"""DescribeQuorum, API key 55."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Uint16, Uuid, Versions, field


class DescribeQuorumRequest(Message):
    """Request for the state of the Raft quorum (KIP-642, KIP-853)."""

    API_KEY = 55
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topics: list[TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[DescribeQuorumRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")


class DescribeQuorumResponse(Message):
    """Leader, epoch, voters and observers with their offsets."""

    API_KEY = 55
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "2+", nullable="2+", ignorable=True)
    topics: list[TopicData] = field(Array("TopicData"), "0+")
    nodes: list[Node] = field(Array("Node"), "2+")

    class TopicData(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[DescribeQuorumResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class Node(Struct):
        node_id: int = field(Int32, "2+")
        listeners: list[DescribeQuorumResponse.Listener] = field(Array("Listener"), "2+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "2+", nullable="2+", ignorable=True)
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        high_watermark: int = field(Int64, "0+")
        current_voters: list[DescribeQuorumResponse.ReplicaState] = field(Array("ReplicaState"), "0+")
        observers: list[DescribeQuorumResponse.ReplicaState] = field(Array("ReplicaState"), "0+")

    class ReplicaState(Struct):
        replica_id: int = field(Int32, "0+")
        replica_directory_id: UUID = field(Uuid, "2+")
        log_end_offset: int = field(Int64, "0+")
        last_fetch_timestamp: int = field(Int64, "1+", ignorable=True, default=-1)
        last_caught_up_timestamp: int = field(Int64, "1+", ignorable=True, default=-1)

    class Listener(Struct):
        name: str = field(String, "2+")
        host: str = field(String, "2+")
        port: int = field(Uint16, "2+")
