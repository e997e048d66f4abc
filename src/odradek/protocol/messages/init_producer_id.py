"""InitProducerId, API key 22."""

from __future__ import annotations

from odradek.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Versions, field


class InitProducerIdRequest(Message):
    """Request for a producer id and epoch, for a transactional id or without one (KIP-98, KIP-360, KIP-939)."""

    API_KEY = 22
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(2)
    LATEST_UNSTABLE = True

    transactional_id: str | None = field(String, "0+", nullable="0+")
    transaction_timeout_ms: int = field(Int32, "0+")
    producer_id: int = field(Int64, "3+", default=-1)
    producer_epoch: int = field(Int16, "3+", default=-1)
    enable2_pc: bool = field(Bool, "6+")
    keep_prepared_txn: bool = field(Bool, "6+")


class InitProducerIdResponse(Message):
    """Producer id and epoch to use."""

    API_KEY = 22
    VALID_VERSIONS = Versions(0, 6)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+", ignorable=True)
    error_code: int = field(Int16, "0+")
    producer_id: int = field(Int64, "0+", default=-1)
    producer_epoch: int = field(Int16, "0+")
    ongoing_txn_producer_id: int = field(Int64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(Int16, "6+", default=-1)
