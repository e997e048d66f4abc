"""Errors that end a SASL exchange. Their texts contain no secrets."""

from __future__ import annotations

from odradek.base.errors import OdradekError


class SaslError(OdradekError):
    """Failure of an exchange. A server logs the text, and tells the client only that its credentials are invalid."""


class SaslRefused(SaslError):
    """Refusal whose text is sent to the client (SaslAuthenticationException)."""
