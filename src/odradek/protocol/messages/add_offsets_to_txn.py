"""AddOffsetsToTxn, API key 25."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Int64, Message, String, Versions, field


class AddOffsetsToTxnRequest(Message):
    """Request to add the offsets partition of a group to a transaction (KIP-98)."""

    API_KEY = 25
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(3)

    transactional_id: str = field(String, "0+")
    producer_id: int = field(Int64, "0+")
    producer_epoch: int = field(Int16, "0+")
    group_id: str = field(String, "0+")


class AddOffsetsToTxnResponse(Message):
    """Result."""

    API_KEY = 25
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(3)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
