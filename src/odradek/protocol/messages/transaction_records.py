"""Records of `__transaction_state` (KIP-98); API_KEY is the record type."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Versions, field


class TransactionLogKey(Message):
    """Key: a transactional id."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)

    transactional_id: str = field(String, "0")


class TransactionLogValue(Message):
    """Value: producer ids and epochs, state, partitions and times of a transaction (KIP-98, KIP-890)."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 1)
    FLEXIBLE_VERSIONS = Versions.since(1)

    producer_id: int = field(Int64, "0+")
    previous_producer_id: int = field(Int64, "1+", tag=0, default=-1)
    next_producer_id: int = field(Int64, "1+", tag=1, default=-1)
    producer_epoch: int = field(Int16, "0+")
    next_producer_epoch: int = field(Int16, "1+", tag=3, default=-1)
    transaction_timeout_ms: int = field(Int32, "0+")
    transaction_status: int = field(Int8, "0+")
    transaction_partitions: list[PartitionsSchema] | None = field(Array("PartitionsSchema"), "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = field(Int64, "0+")
    transaction_start_timestamp_ms: int = field(Int64, "0+")
    client_transaction_version: int = field(Int16, "1+", tag=2)

    class PartitionsSchema(Struct):
        topic: str = field(String, "0+")
        partition_ids: list[int] = field(Array(Int32), "0+")
