"""GSSAPI, which is Kerberos (RFC 4752): a context is established, then a security layer negotiated, which is none: TLS is for that.

The contexts are the library's (`network.kerberos`), and each of their steps may ask a disk or a KDC: they run on other threads.
The authorization identity that a client sends is not followed, as in Kafka (SaslServerCallbackHandler): who has proved to be
alice is alice, and clients exist that send the service's name there.
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
"""The layers, a bit each, and the largest message (3 bytes), which is 0 where there is no layer."""


class SecurityContext(Protocol):
    """One side of a context of GSSAPI. Each call raises SaslError when the other side is not who it says, and may take long."""

    @property
    def complete(self) -> bool:
        """Whether it is established."""
        ...

    @property
    def initiator(self) -> str:
        """The principal of the client, once it is established."""
        ...

    def step(self, token: bytes) -> bytes:
        """The token for the other side, b"" where there is none."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """The message with its proof."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """The message of a token whose proof is right."""
        ...


class GssapiServer:
    """See `ServerExchange`."""

    def __init__(self, context: Callable[[], SecurityContext], name_of: Callable[[str], str]) -> None:
        """`context` makes the server's side; `name_of` gives a principal its short name, or raises ValueError."""
        self._new_context = context
        self._name_of = name_of
        self._context: SecurityContext | None = None
        self._step: Callable[[SecurityContext, bytes], bytes] = self._establish
        self._result: bytes | SaslError = b""
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Everything takes long."""
        return partial(self._work, message)

    def answer(self, message: bytes) -> bytes:
        """What the work has led to."""
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
            raise SaslError("the client sends something where it has nothing to say")
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
    """See `SaslClient`."""

    mechanism = GSSAPI
    takes_long = True

    def __init__(self, context: Callable[[], SecurityContext]) -> None:
        """`context` makes the client's side, for which it may ask a KDC."""
        self._new_context = context
        self._context: SecurityContext | None = None
        self._over = False

    def first(self) -> bytes:
        """The first token; SaslError without a ticket."""
        self._context = self._new_context()
        return self._context.step(b"")

    def answer(self, challenge: bytes) -> bytes | None:
        """See `SaslClient`. Nothing is over before the server, too, has proved who it is."""
        context = self._context
        assert context is not None
        if self._over:
            return None
        if not context.complete:
            return context.step(challenge)
        offer = context.unwrap(challenge)
        if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
            raise SaslError("the server demands a security layer, and there is none in Kafka")
        self._over = True
        return context.wrap(_OFFER)
