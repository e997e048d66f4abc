"""OAUTHBEARER, server side (RFC 7628; org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer).

The server answers a refused token with a JSON text. The client sends one byte 0x01, and then the exchange fails with the JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.security.sasl.errors import SaslError, SaslRefused
from odradek.security.sasl.server import Identity


class TokenRefused(Exception):
    """Refusal of a bearer token. The text is for the log and quotes nothing of the token."""

    def __init__(self, why: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.scope = scope


class BearerToken(NamedTuple):
    """Claims of an accepted token. Times are Unix milliseconds."""

    principal: str
    expires_ms: int
    scopes: frozenset[str]


Validate = Callable[[str], BearerToken]
"""Function that validates a token in compact serialization and returns its claims. Raises TokenRefused."""

_NAME = r"(?:[^\x00=,\x80-\U0010ffff]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class OAuthBearerServer:
    """Server side of one OAUTHBEARER exchange."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.identity: Identity | None = None
        self.extensions: Mapping[str, str] = {}
        """Extensions that the client sent beside its token."""

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Return None: checking a signature takes less than a millisecond."""
        return None

    def answer(self, message: bytes) -> bytes:
        """Validate the token. Return b"" for an accepted token, the JSON text for a refused one. See `ServerExchange`."""
        if message == b"\x01" and self._refusal is not None:
            raise SaslRefused(self._refusal)
        self._refusal = None
        authorization_id, token, extensions = parse_first(message)
        try:
            accepted = self._validate(token)
        except TokenRefused as error:
            self._refusal = _as_json(error)
            return self._refusal.encode()
        if authorization_id and authorization_id != accepted.principal:
            raise SaslRefused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({accepted.principal})"
            )
        self.extensions = extensions
        self.identity = Identity(accepted.principal, accepted.expires_ms)
        return b""


def parse_first(message: bytes) -> tuple[str, str, dict[str, str]]:
    """Return authorization id, token and extensions of a client's first message.

    Raises SaslError, which quotes nothing of the message, for a malformed message.
    """
    match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _AUTH.fullmatch(auth)
    if bearer is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if bearer["scheme"].lower() != "bearer":
        raise SaslError("Invalid scheme in OAUTHBEARER client first message")
    return match["authzid"] or "", bearer["token"], pairs


def _as_json(error: TokenRefused) -> str:
    scope = "" if error.scope is None else f', "scope":"{error.scope}"'
    return f'{{"status":"{error.status}"{scope}}}'
