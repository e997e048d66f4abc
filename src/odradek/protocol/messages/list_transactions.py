"""ListTransactions, API key 66."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class ListTransactionsRequest(Message):
    """Request for transactions by state, producer, age and name pattern (KIP-664, KIP-994, KIP-1152)."""

    API_KEY = 66
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    state_filters: list[str] = field(Array(String), "0+")
    producer_id_filters: list[int] = field(Array(Int64), "0+")
    duration_filter: int = field(Int64, "1+", default=-1)
    transactional_id_pattern: str | None = field(String, "2+", nullable="2+", default=None)


class ListTransactionsResponse(Message):
    """Transactions by name, with producer and state."""

    API_KEY = 66
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    unknown_state_filters: list[str] = field(Array(String), "0+")
    transaction_states: list[TransactionState] = field(Array("TransactionState"), "0+")

    class TransactionState(Struct):
        transactional_id: str = field(String, "0+")
        producer_id: int = field(Int64, "0+")
        transaction_state: str = field(String, "0+")
