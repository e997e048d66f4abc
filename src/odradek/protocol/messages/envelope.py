"""Envelope, API key 58."""

from __future__ import annotations

from odradek.protocol.schema import Bytes, Int16, Message, Versions, field


class EnvelopeRequest(Message):
    """Client's request that a broker forwards to the controller (KIP-590)."""

    API_KEY = 58
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    request_data: bytes = field(Bytes, "0+")
    request_principal: bytes | None = field(Bytes, "0+", nullable="0+")
    client_host_address: bytes = field(Bytes, "0+")


class EnvelopeResponse(Message):
    """Response to the forwarded request."""

    API_KEY = 58
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    response_data: bytes | None = field(Bytes, "0+", nullable="0+", default=None)
    error_code: int = field(Int16, "0+")
