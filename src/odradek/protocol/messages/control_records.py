"""Key and value of control records in ordinary logs (KIP-98)."""

from __future__ import annotations

from odradek.protocol.schema import Int16, Int32, Message, Versions, field


class ControlRecordTypeSchema(Message):
    """Key of a control record (KIP-98); the version precedes it as an int16."""

    VALID_VERSIONS = Versions(0, 0)

    type: int = field(Int16, "0+")


class EndTxnMarker(Message):
    """Value of a commit or abort marker (KIP-98); the version precedes it as an int16."""

    VALID_VERSIONS = Versions(0, 0)

    coordinator_epoch: int = field(Int32, "0+")
