"""Errors of the conversion between bytes and messages."""

from __future__ import annotations

from odradek.base.errors import OdradekError, ProtocolError

__all__ = ["InvalidMessageError", "ProtocolError", "UnsupportedVersionError"]


class UnsupportedVersionError(ProtocolError):
    """Error when the requested version lacks the message, or a field of it that must not be dropped."""


class InvalidMessageError(OdradekError, ValueError):
    """Error when a message of this node cannot be written: a null where none is allowed, a number or a text out of range."""
