"""Heartbeat, API key 12."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Message, String, Versions, field


class HeartbeatRequest(Message):
    """Heartbeat of a member of a classic group."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    group_id: str = field(String, "0+")
    generation_id: int = field(Int32, "0+")
    member_id: str = field(String, "0+")
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)


class HeartbeatResponse(Message):
    """Result; errors such as REBALANCE_IN_PROGRESS make the member rejoin."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0+")
