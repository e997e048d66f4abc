"""CreatePartitions, API key 37."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Versions, field


class CreatePartitionsRequest(Message):
    """Request to raise the partition counts of topics (KIP-195)."""

    API_KEY = 37
    VALID_VERSIONS = Versions(0, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    topics: list[CreatePartitionsTopic] = field(Array("CreatePartitionsTopic"), "0+")
    timeout_ms: int = field(Int32, "0+")
    validate_only: bool = field(Bool, "0+")

    class CreatePartitionsTopic(Struct):
        name: str = field(String, "0+")
        count: int = field(Int32, "0+")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = field(
            Array("CreatePartitionsAssignment"), "0+", nullable="0+"
        )

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = field(Array(Int32), "0+")


class CreatePartitionsResponse(Message):
    """Result for every topic."""

    API_KEY = 37
    VALID_VERSIONS = Versions(0, 3)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[CreatePartitionsTopicResult] = field(Array("CreatePartitionsTopicResult"), "0+")

    class CreatePartitionsTopicResult(Struct):
        name: str = field(String, "0+")
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
