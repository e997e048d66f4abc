"""BrokerHeartbeat, API key 63."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, Uuid, Versions, field


class BrokerHeartbeatRequest(Message):
    """Broker's report of its metadata offset, its requests to be fenced or shut down, and its failed directories (KIP-631, KIP-858)."""

    API_KEY = 63
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)
    current_metadata_offset: int = field(Int64, "0+")
    want_fence: bool = field(Bool, "0+")
    want_shut_down: bool = field(Bool, "0+")
    offline_log_dirs: list[UUID] = field(Array(Uuid), "1+", tag=0)
    cordoned_log_dirs: list[UUID] | None = field(Array(Uuid), "2+", nullable="2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message):
    """State of the broker: caught up, fenced, allowed to shut down."""

    API_KEY = 63
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    is_caught_up: bool = field(Bool, "0+")
    is_fenced: bool = field(Bool, "0+", default=True)
    should_shut_down: bool = field(Bool, "0+")
