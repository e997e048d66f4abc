"""GSSAPI (Kerberos; RFC 4752): both sides establish a context, then negotiate a security layer.

The only layer is "none", because TLS protects connections. The contexts come from the library (`network.kerberos`). A step of a context may
access a disk or a KDC, so steps run on other threads.

The authorization identity that a client sends is ignored, as in Kafka (SaslServerCallbackHandler). The identity is the principal that the
context proved; some clients send the service's name as authorization identity.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.server import Identity

GSSAPI: Final = "GSSAPI"
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""Bits of the offered layers, and the largest message size (3 bytes), which is 0 without a layer."""


class SecurityContext(Protocol):
    """Interface of a GSSAPI context. Each call may take long, and raises SaslError when the peer fails to prove its identity."""

    @property
    def complete(self) -> bool:
        """Return whether the context is established."""
        ...

    @property
    def initiator(self) -> str:
        """Return the client's principal, once the context is established."""
        ...

    def step(self, token: bytes) -> bytes:
        """Return the token for the peer; b"" when there is nothing to send."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return the message with its integrity proof."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of a token after checking its integrity proof."""
        ...


class GssapiServer:
    """Server side of GSSAPI; see `ServerExchange`."""

    def __init__(self, context: Callable[[], SecurityContext], name_of: Callable[[str], str]) -> None:
        """`context` creates the server's context; `name_of` returns a principal's short name, or raises ValueError."""
        self._new_context = context
        self._name_of = name_of
        self._context: SecurityContext | None = None
        self._step: Callable[[SecurityContext, bytes], bytes] = self._establish
        self._result: bytes | SaslError = b""
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Return the whole work on the message, because each step may take long."""
        return partial(self._work, message)

    def answer(self, message: bytes) -> bytes:
        """Return the result of the work that `prepare` returned, or raise its SaslError."""
        if isinstance(self._result, SaslError):
            raise self._result
        return self._result

    def _work(self, message: bytes) -> None:
        try:
            if self._context is None:
                self._context = self._new_context()
            self._result = self._step(self._context, message)
        except SaslError as error:
            self._result = error

    def _establish(self, context: SecurityContext, token: bytes) -> bytes:
        answer = context.step(token)
        if not context.complete:
            return answer
        if not answer:
            return self._offer(context, b"")
        self._step = self._offer
        return answer

    def _offer(self, context: SecurityContext, token: bytes) -> bytes:
        if token:
            raise SaslError("the client sends data where none is expected")
        self._step = self._chosen
        return context.wrap(_OFFER)

    def _chosen(self, context: SecurityContext, token: bytes) -> bytes:
        choice = context.unwrap(token)
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise SaslError("the client chooses a security layer that was not offered")
        try:
            self.identity = Identity(self._name_of(context.initiator))
        except ValueError as error:
            raise SaslError(f"Failed to set name based on Kerberos authentication rules: {error}") from None
        return b""


class GssapiClient:
    """Client side of GSSAPI; see `SaslClient`."""

    mechanism = GSSAPI
    takes_long = True

    def __init__(self, context: Callable[[], SecurityContext]) -> None:
        """`context` creates the client's context, which may access a KDC."""
        self._new_context = context
        self._context: SecurityContext | None = None
        self._over = False

    def first(self) -> bytes:
        """Return the first token. Raises SaslError without a ticket."""
        self._context = self._new_context()
        return self._context.step(b"")

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message; None only after the server has proved its identity, too. See `SaslClient`."""
        context = self._context
        assert context is not None
        if self._over:
            return None
        if not context.complete:
            return context.step(challenge)
        offer = context.unwrap(challenge)
        if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
            raise SaslError("the server requires a security layer, which Kafka does not support")
        self._over = True
        return context.wrap(_OFFER)
