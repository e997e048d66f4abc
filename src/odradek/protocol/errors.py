"""What can go wrong between bytes and messages."""

from __future__ import annotations

from odradek.base.errors import OdradekError, ProtocolError

__all__ = ["InvalidMessageError", "ProtocolError", "UnsupportedVersionError"]


class UnsupportedVersionError(ProtocolError):
    """The message, or a field of it that must not be dropped, does not exist in the version asked for."""


class InvalidMessageError(OdradekError, ValueError):
    """A message of ours that cannot be written: a null where none is allowed, a number or a text out of range."""
