"""DeleteRecords, API key 21."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class DeleteRecordsRequest(Message):
    """Request to delete the records before given offsets (KIP-107)."""

    API_KEY = 21
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    topics: list[DeleteRecordsTopic] = field(Array("DeleteRecordsTopic"), "0+")
    timeout_ms: int = field(Int32, "0+")

    class DeleteRecordsTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = field(Array("DeleteRecordsPartition"), "0+")

    class DeleteRecordsPartition(Struct):
        partition_index: int = field(Int32, "0+")
        offset: int = field(Int64, "0+")


class DeleteRecordsResponse(Message):
    """New log start offsets."""

    API_KEY = 21
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    topics: list[DeleteRecordsTopicResult] = field(Array("DeleteRecordsTopicResult"), "0+")

    class DeleteRecordsTopicResult(Struct):
        name: str = field(String, "0+")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = field(Array("DeleteRecordsPartitionResult"), "0+")

    class DeleteRecordsPartitionResult(Struct):
        partition_index: int = field(Int32, "0+")
        low_watermark: int = field(Int64, "0+")
        error_code: int = field(Int16, "0+")
