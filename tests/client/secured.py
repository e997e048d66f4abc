"""A scripted broker with SASL: it answers the handshake and each message as a test says."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import ScriptedBrokers

USER, PASSWORD = "user", "pencil"


class ScramServer:
    """The server's side of SCRAM, written from RFC 5802 apart from the client's."""

    def __init__(self, digest: str = "sha256", password: str = PASSWORD, *, salt: bytes = b"salt-salt", iterations: int = 4096) -> None:
        self.digest = digest
        self.password = password
        self.salt = salt
        self.iterations = iterations
        self.first: bytes = b""
        self.bare = b""

    def challenge(self, message: bytes) -> bytes:
        self.bare = message.removeprefix(b"n,,")
        nonce = next(part for part in self.bare.split(b",") if part.startswith(b"r="))
        self.first = b"%s-of-server,s=%s,i=%d" % (nonce, base64.b64encode(self.salt), self.iterations)
        return self.first

    def verdict(self, message: bytes) -> bytes | None:
        """The server's last message; None when the proof is wrong."""
        without, _, proof = message.rpartition(b",p=")
        signed = b",".join((self.bare, self.first, without))
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), self.salt, self.iterations)
        stored = hashlib.new(self.digest, self._mac(salted, b"Client Key")).digest()
        signature = self._mac(stored, signed)
        key = bytes(a ^ b for a, b in zip(signature, base64.b64decode(proof), strict=True))
        if hashlib.new(self.digest, key).digest() != stored:
            return None
        return b"v=" + base64.b64encode(self._mac(self._mac(salted, b"Server Key"), signed))

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.digest)


class SecuredBrokers(ScriptedBrokers):
    """`authenticate(message)` answers each SaslAuthenticate; other requests as in ScriptedBrokers."""

    def __init__(
        self,
        loop: SimulatedLoop,
        authenticate: Callable[[bytes], SaslAuthenticateResponse],
        answer: Callable[[int, Message], Message | None] | None = None,
    ) -> None:
        self.authenticate = authenticate
        self.handshake = SaslHandshakeResponse(mechanisms=["PLAIN"])
        self.messages: list[bytes] = []
        super().__init__(loop, 1, answer or (lambda *_: self.metadata(leader=1)))

    def respond(self, node: int, request: Message) -> Message | None:
        if isinstance(request, SaslHandshakeRequest):
            self.asked.append((node, request))
            return self.handshake
        if isinstance(request, SaslAuthenticateRequest):
            self.asked.append((node, request))
            self.messages.append(bytes(request.auth_bytes))
            return self.authenticate(bytes(request.auth_bytes))
        return super().respond(node, request)


def accepted(lifetime_ms: int = 0, auth_bytes: bytes = b"") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=auth_bytes, session_lifetime_ms=lifetime_ms)


def refused(message: str = "no") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)


def scram(server: ScramServer) -> Callable[[bytes], SaslAuthenticateResponse]:
    """Answers as this server does."""

    def authenticate(message: bytes) -> SaslAuthenticateResponse:
        if message.startswith(b"n,,"):
            return accepted(auth_bytes=server.challenge(message))
        verdict = server.verdict(message)
        return refused() if verdict is None else accepted(auth_bytes=verdict)

    return authenticate
