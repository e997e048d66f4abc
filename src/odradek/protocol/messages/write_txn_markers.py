"""WriteTxnMarkers, API key 27."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Versions, field


class WriteTxnMarkersRequest(Message):
    """Transaction coordinator's request to partition leaders to append commit or abort markers (KIP-98)."""

    API_KEY = 27
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(1)

    markers: list[WritableTxnMarker] = field(Array("WritableTxnMarker"), "0+")

    class WritableTxnMarker(Struct):
        producer_id: int = field(Int64, "0+")
        producer_epoch: int = field(Int16, "0+")
        transaction_result: bool = field(Bool, "0+")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = field(Array("WritableTxnMarkerTopic"), "0+")
        coordinator_epoch: int = field(Int32, "0+")
        transaction_version: int = field(Int8, "2+", ignorable=True)

    class WritableTxnMarkerTopic(Struct):
        name: str = field(String, "0+")
        partition_indexes: list[int] = field(Array(Int32), "0+")


class WriteTxnMarkersResponse(Message):
    """Result for every producer and partition."""

    API_KEY = 27
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(1)

    markers: list[WritableTxnMarkerResult] = field(Array("WritableTxnMarkerResult"), "0+")

    class WritableTxnMarkerResult(Struct):
        producer_id: int = field(Int64, "0+")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = field(Array("WritableTxnMarkerTopicResult"), "0+")

    class WritableTxnMarkerTopicResult(Struct):
        name: str = field(String, "0+")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = field(Array("WritableTxnMarkerPartitionResult"), "0+")

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
