"""ListOffsets, API key 2."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Versions, field


class ListOffsetsRequest(Message):
    """Request for offsets by timestamp, or for the first, last, largest-timestamp and tiered ones (KIP-79, KIP-734, KIP-405)."""

    API_KEY = 2
    VALID_VERSIONS = Versions(1, 11)
    FLEXIBLE_VERSIONS = Versions.since(6)

    replica_id: int = field(Int32, "0+")
    isolation_level: int = field(Int8, "2+")
    topics: list[ListOffsetsTopic] = field(Array("ListOffsetsTopic"), "0+")
    timeout_ms: int = field(Int32, "10+", ignorable=True)

    class ListOffsetsTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = field(Array("ListOffsetsPartition"), "0+")

    class ListOffsetsPartition(Struct):
        partition_index: int = field(Int32, "0+")
        current_leader_epoch: int = field(Int32, "4+", ignorable=True, default=-1)
        timestamp: int = field(Int64, "0+")


class ListOffsetsResponse(Message):
    """Offsets found, with their timestamps and leader epochs."""

    API_KEY = 2
    VALID_VERSIONS = Versions(1, 11)
    FLEXIBLE_VERSIONS = Versions.since(6)

    throttle_time_ms: int = field(Int32, "2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(Array("ListOffsetsTopicResponse"), "0+")

    class ListOffsetsTopicResponse(Struct):
        name: str = field(String, "0+")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = field(Array("ListOffsetsPartitionResponse"), "0+")

    class ListOffsetsPartitionResponse(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        timestamp: int = field(Int64, "1+", default=-1)
        offset: int = field(Int64, "1+", default=-1)
        leader_epoch: int = field(Int32, "4+", default=-1)
