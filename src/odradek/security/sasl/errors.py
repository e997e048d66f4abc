"""Why an exchange ends. No text holds a secret."""

from __future__ import annotations

from odradek.base.errors import OdradekError


class SaslError(OdradekError):
    """The exchange cannot go on. A server logs the text and tells the client nothing but that its credentials are invalid."""


class SaslRefused(SaslError):
    """The client is refused, and its text is for the client (SaslAuthenticationException)."""
