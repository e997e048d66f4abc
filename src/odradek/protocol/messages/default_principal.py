"""Principal sent from broker to controller (KIP-590)."""

from __future__ import annotations

from odradek.protocol.schema import Bool, Message, String, Versions, field


class DefaultPrincipalData(Message):
    """Principal inside an Envelope (KIP-590); the version precedes it as an int16."""

    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    type: str = field(String, "0+")
    name: str = field(String, "0+")
    token_authenticated: bool = field(Bool, "0+")
