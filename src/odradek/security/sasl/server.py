"""Interface of a SASL mechanism on the server, and PLAIN.

(RFC 4616; org.apache.kafka.common.security.plain.internals.PlainSaslServer)
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from odradek.security.sasl.errors import SaslRefused

DIFFERENT_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class Identity(NamedTuple):
    """Authenticated identity. `expires_ms` (Unix milliseconds) is the end of the credential; None without an end."""

    name: str
    expires_ms: int | None = None
    by_token: bool = False
    """Whether the credential was a delegation token."""


class ServerExchange(Protocol):
    """Server side of one exchange, which is complete when `identity` is set."""

    @property
    def identity(self) -> Identity | None: ...

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Return the work that takes longer than a millisecond, to be done on any thread before `answer` gets the message; usually None."""
        ...

    def answer(self, message: bytes) -> bytes:
        """Return the next challenge, or the data that accompanies success. Raises SaslRefused or SaslError when authentication fails."""
        ...


class PlainServer:
    """Server side of PLAIN. The only message is authorization id NUL name NUL password; the authorization id is empty or the name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users` maps user names to passwords."""
        self._users = users
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Return None: the check takes less than a millisecond."""
        return None

    def answer(self, message: bytes) -> bytes:
        """Check name and password. See `ServerExchange`."""
        parts = message.decode("utf-8", "replace").split("\0", 4)
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        authorization_id, name, password = parts
        if not name:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        expected = self._users.get(name)
        # An unknown user has to cost the same comparison as a wrong password.
        equal = hmac.compare_digest((password if expected is None else expected).encode(), password.encode())
        if expected is None or not equal:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise SaslRefused(DIFFERENT_AUTHORIZATION_ID)
        self.identity = Identity(name)
        return b""
