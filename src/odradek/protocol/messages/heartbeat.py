"""Heartbeat, API key 12."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Message, String, Versions, field


class HeartbeatRequest(Message):
    """A member of a classic group says that it is alive."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    group_id: str = field(String, "0+")
    generation_id: int = field(Int32, "0+")
    member_id: str = field(String, "0+")
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)


class HeartbeatResponse(Message):
    """Whether the member may go on or must rejoin."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    throttle_time_ms: int = field(Int32, "1+", ignorable=True)
    error_code: int = field(Int16, "0+")
