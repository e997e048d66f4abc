"""OffsetForLeaderEpoch, API key 23."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class OffsetForLeaderEpochRequest(Message):
    """Request for the end offsets of leader epochs (KIP-101, KIP-320)."""

    API_KEY = 23
    VALID_VERSIONS = Versions(2, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    replica_id: int = field(Int32, "3+", ignorable=True, default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array("OffsetForLeaderTopic"), "0+")

    class OffsetForLeaderTopic(Struct):
        topic: str = field(String, "0+")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = field(Array("OffsetForLeaderPartition"), "0+")

    class OffsetForLeaderPartition(Struct):
        partition: int = field(Int32, "0+")
        current_leader_epoch: int = field(Int32, "2+", ignorable=True, default=-1)
        leader_epoch: int = field(Int32, "0+")


class OffsetForLeaderEpochResponse(Message):
    """End offset of each epoch."""

    API_KEY = 23
    VALID_VERSIONS = Versions(2, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(Array("OffsetForLeaderTopicResult"), "0+")

    class OffsetForLeaderTopicResult(Struct):
        topic: str = field(String, "0+")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = field(Array("EpochEndOffset"), "0+")

    class EpochEndOffset(Struct):
        error_code: int = field(Int16, "0+")
        partition: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "1+", ignorable=True, default=-1)
        end_offset: int = field(Int64, "0+", default=-1)
