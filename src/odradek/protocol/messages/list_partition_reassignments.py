"""ListPartitionReassignments, API key 46."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class ListPartitionReassignmentsRequest(Message):
    """Request for moves of replicas in progress (KIP-455)."""

    API_KEY = 46
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    timeout_ms: int = field(Int32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array("ListPartitionReassignmentsTopics"), "0+", nullable="0+", default=None
    )

    class ListPartitionReassignmentsTopics(Struct):
        name: str = field(String, "0+")
        partition_indexes: list[int] = field(Array(Int32), "0+")


class ListPartitionReassignmentsResponse(Message):
    """Current, added and removed replicas by partition."""

    API_KEY = 46
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field(Array("OngoingTopicReassignment"), "0+")

    class OngoingTopicReassignment(Struct):
        name: str = field(String, "0+")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = field(
            Array("OngoingPartitionReassignment"), "0+"
        )

    class OngoingPartitionReassignment(Struct):
        partition_index: int = field(Int32, "0+")
        replicas: list[int] = field(Array(Int32), "0+")
        adding_replicas: list[int] = field(Array(Int32), "0+")
        removing_replicas: list[int] = field(Array(Int32), "0+")
