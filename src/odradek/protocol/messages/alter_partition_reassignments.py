"""AlterPartitionReassignments, API key 45."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Versions, field


class AlterPartitionReassignmentsRequest(Message):
    """Request to start or cancel moves of replicas (KIP-455)."""

    API_KEY = 45
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    timeout_ms: int = field(Int32, "0+", default=60000)
    allow_replication_factor_change: bool = field(Bool, "1+", default=True)
    topics: list[ReassignableTopic] = field(Array("ReassignableTopic"), "0+")

    class ReassignableTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = field(Array("ReassignablePartition"), "0+")

    class ReassignablePartition(Struct):
        partition_index: int = field(Int32, "0+")
        replicas: list[int] | None = field(Array(Int32), "0+", nullable="0+", default=None)


class AlterPartitionReassignmentsResponse(Message):
    """Result for every partition."""

    API_KEY = 45
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    allow_replication_factor_change: bool = field(Bool, "1+", ignorable=True, default=True)
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field(Array("ReassignableTopicResponse"), "0+")

    class ReassignableTopicResponse(Struct):
        name: str = field(String, "0+")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = field(
            Array("ReassignablePartitionResponse"), "0+"
        )

    class ReassignablePartitionResponse(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+")
