"""PushTelemetry, API key 72."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid, Versions, field


class PushTelemetryRequest(Message):
    """Metrics pushed by a client (KIP-714)."""

    API_KEY = 72
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    client_instance_id: UUID = field(Uuid, "0+")
    subscription_id: int = field(Int32, "0+")
    terminating: bool = field(Bool, "0+")
    compression_type: int = field(Int8, "0+")
    metrics: bytes = field(Bytes, "0+")


class PushTelemetryResponse(Message):
    """Result."""

    API_KEY = 72
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
