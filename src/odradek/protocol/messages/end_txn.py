"""EndTxn, API key 26."""

from __future__ import annotations

from odradek.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Versions, field


class EndTxnRequest(Message):
    """Request to commit or abort a transaction (KIP-98, KIP-890)."""

    API_KEY = 26
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    transactional_id: str = field(String, "0+")
    producer_id: int = field(Int64, "0+")
    producer_epoch: int = field(Int16, "0+")
    committed: bool = field(Bool, "0+")


class EndTxnResponse(Message):
    """Result, and since version 5 the producer id and epoch for the next transaction."""

    API_KEY = 26
    VALID_VERSIONS = Versions(0, 5)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    producer_id: int = field(Int64, "5+", ignorable=True, default=-1)
    producer_epoch: int = field(Int16, "5+", ignorable=True, default=-1)
