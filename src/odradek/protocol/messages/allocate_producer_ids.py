"""AllocateProducerIds, API key 67."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Int64, Message, Versions, field


class AllocateProducerIdsRequest(Message):
    """Broker's request to the controller for a block of producer ids (KIP-730)."""

    API_KEY = 67
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)


class AllocateProducerIdsResponse(Message):
    """Allocated block of producer ids."""

    API_KEY = 67
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    producer_id_start: int = field(Int64, "0+")
    producer_id_len: int = field(Int32, "0+")
