"""GetTelemetrySubscriptions, API key 71."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid, Versions, field


class GetTelemetrySubscriptionsRequest(Message):
    """Client's request for its telemetry subscription (KIP-714)."""

    API_KEY = 71
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    client_instance_id: UUID = field(Uuid, "0+")


class GetTelemetrySubscriptionsResponse(Message):
    """Subscription: metrics, interval, compression."""

    API_KEY = 71
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    client_instance_id: UUID = field(Uuid, "0+")
    subscription_id: int = field(Int32, "0+")
    accepted_compression_types: list[int] = field(Array(Int8), "0+")
    push_interval_ms: int = field(Int32, "0+")
    telemetry_max_bytes: int = field(Int32, "0+")
    delta_temporality: bool = field(Bool, "0+")
    requested_metrics: list[str] = field(Array(String), "0+")
