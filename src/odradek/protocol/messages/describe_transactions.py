"""DescribeTransactions, API key 65."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class DescribeTransactionsRequest(Message):
    """Request for the state of transactions by transactional id (KIP-664)."""

    API_KEY = 65
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    transactional_ids: list[str] = field(Array(String), "0+")


class DescribeTransactionsResponse(Message):
    """State, producer, timeout and partitions of each transaction."""

    API_KEY = 65
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    transaction_states: list[TransactionState] = field(Array("TransactionState"), "0+")

    class TransactionState(Struct):
        error_code: int = field(Int16, "0+")
        transactional_id: str = field(String, "0+")
        transaction_state: str = field(String, "0+")
        transaction_timeout_ms: int = field(Int32, "0+")
        transaction_start_time_ms: int = field(Int64, "0+")
        producer_id: int = field(Int64, "0+")
        producer_epoch: int = field(Int16, "0+")
        topics: list[DescribeTransactionsResponse.TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
