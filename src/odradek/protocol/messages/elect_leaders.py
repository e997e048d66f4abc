"""ElectLeaders, API key 43."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Message, String, Struct, Versions, field


class ElectLeadersRequest(Message):
    """Request to start preferred or unclean leader elections (KIP-183, KIP-460)."""

    API_KEY = 43
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    election_type: int = field(Int8, "1+")
    topic_partitions: list[TopicPartitions] | None = field(Array("TopicPartitions"), "0+", nullable="0+")
    timeout_ms: int = field(Int32, "0+", default=60000)

    class TopicPartitions(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ElectLeadersResponse(Message):
    """Result for every partition."""

    API_KEY = 43
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "1+", ignorable=True)
    replica_election_results: list[ReplicaElectionResult] = field(Array("ReplicaElectionResult"), "0+")

    class ReplicaElectionResult(Struct):
        topic: str = field(String, "0+")
        partition_result: list[ElectLeadersResponse.PartitionResult] = field(Array("PartitionResult"), "0+")

    class PartitionResult(Struct):
        partition_id: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
