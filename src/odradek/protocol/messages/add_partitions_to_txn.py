"""AddPartitionsToTxn, API key 24."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Versions, field


class AddPartitionsToTxnRequest(Message):
    """Request to add partitions to transactions: from a producer, or in batches from brokers (KIP-98, KIP-890)."""

    API_KEY = 24
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    transactions: list[AddPartitionsToTxnTransaction] = field(Array("AddPartitionsToTxnTransaction"), "4+")
    v3_and_below_transactional_id: str = field(String, "0-3")
    v3_and_below_producer_id: int = field(Int64, "0-3")
    v3_and_below_producer_epoch: int = field(Int16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array("AddPartitionsToTxnTopic"), "0-3")

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = field(String, "4+")
        producer_id: int = field(Int64, "4+")
        producer_epoch: int = field(Int16, "4+")
        verify_only: bool = field(Bool, "4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = field(Array("AddPartitionsToTxnTopic"), "4+")

    class AddPartitionsToTxnTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class AddPartitionsToTxnResponse(Message):
    """Result for every partition."""

    API_KEY = 24
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array("AddPartitionsToTxnResult"), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(Array("AddPartitionsToTxnTopicResult"), "0-3")

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = field(String, "4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = field(Array("AddPartitionsToTxnTopicResult"), "4+")

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = field(String, "0+")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = field(
            Array("AddPartitionsToTxnPartitionResult"), "0+"
        )

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = field(Int32, "0+")
        partition_error_code: int = field(Int16, "0+")
