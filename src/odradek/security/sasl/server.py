"""What a SASL mechanism is to the server, and PLAIN (RFC 4616; org.apache.kafka.common.security.plain.internals.PlainSaslServer)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from odradek.security.sasl.errors import SaslRefused

DIFFERENT_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"


class Identity(NamedTuple):
    """Whom an exchange has proved. `expires_ms` (Unix milliseconds): when the credential ends, where it does."""

    name: str
    expires_ms: int | None = None
    by_token: bool = False
    """Whether it was a delegation token."""


class ServerExchange(Protocol):
    """The server's side of one exchange, which is over when `identity` is there."""

    @property
    def identity(self) -> Identity | None: ...

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Work that takes longer than a millisecond and has to be done, on any thread, before `answer` gets the message; mostly None."""
        ...

    def answer(self, message: bytes) -> bytes:
        """The challenge, or what goes along with success. SaslRefused or SaslError when the client is not who it says."""
        ...


class PlainServer:
    """One message has it all: NUL name NUL password, with an authorization id in front that is empty or the name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users`: name -> password."""
        self._users = users
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Nothing takes long."""
        return None

    def answer(self, message: bytes) -> bytes:
        """See `ServerExchange`."""
        parts = message.decode("utf-8", "replace").split("\0", 4)
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        authorization_id, name, password = parts
        if not name:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        expected = self._users.get(name)
        # An unknown user costs the same comparison as a wrong password.
        equal = hmac.compare_digest((password if expected is None else expected).encode(), password.encode())
        if expected is None or not equal:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise SaslRefused(DIFFERENT_AUTHORIZATION_ID)
        self.identity = Identity(name)
        return b""
