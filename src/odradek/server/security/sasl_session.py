"""Authentication of one connection: the allowed order of frames, and their responses. No IO.

    start --ApiVersions--> versions known --SaslHandshake--> exchange --messages of the mechanism--> authenticated
      \\------------------------SaslHandshake--------------------^

Bare messages in frames follow a handshake of version 0; SaslAuthenticate requests follow one of version 1. A session that ends is renewed
with a handshake for the same mechanism and user (KIP-368). (org.apache.kafka.common.security.authenticator.SaslServerAuthenticator)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, ProtocolError
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.framing import encode_size, frame_chunks
from odradek.protocol.headers import RequestHeader, decode_request_header, encode_response_header
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import Message
from odradek.security.principal import USER, Principal
from odradek.security.sasl.errors import SaslError, SaslRefused
from odradek.security.sasl.server import Identity, ServerExchange

NewExchange = Callable[[str], ServerExchange]
"""Mechanism -> the server's side of a new exchange."""

_REAUTHENTICATION_PAUSE_S = 1.0
"""Seconds; least time between two re-authentications of a connection (KafkaChannel)."""


class Outcome(Enum):
    """Action that follows a frame."""

    ANSWER = "send the response; the authentication continues"
    AUTHENTICATED = "send the response; requests are served"
    FAILED = "send the response, if there is one, after the delay, then close the connection"
    VERSIONS = "let the dispatcher respond; it calls `versions_answered` with the outcome"
    OUT_OF_TURN = "let the dispatcher refuse the request, then continue as after a failure"
    WORK = "do the work elsewhere, then call `resume`"


class Step(NamedTuple):
    """Result of a frame. `reason`: why the authentication failed, for the log."""

    outcome: Outcome
    answer: Sequence[bytes] | None = None
    reason: str = ""
    work: Callable[[], object] | None = None


class _State(Enum):
    START = "start"
    VERSIONS_OR_HANDSHAKE = "versions or handshake"
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    OTHER_MECHANISM = "another mechanism"
    AUTHENTICATED = "authenticated"


class SaslSession:
    """SASL session of one connection. Times: `now_ms` is Unix time in milliseconds, `now_s` monotonic seconds."""

    def __init__(self, mechanisms: Sequence[str], max_reauth_ms: Mapping[str, int], new_exchange: NewExchange) -> None:
        self._mechanisms = mechanisms
        self._max_reauth_ms = max_reauth_ms
        self._new_exchange = new_exchange
        self._state = _State.START
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._in_requests = False
        self._waiting: tuple[RequestHeader | None, bytes] | None = None
        self._again_from_s: float | None = None
        self.principal: Principal | None = None
        """Authenticated principal of the connection."""
        self.expires_s: float | None = None
        """Monotonic seconds of the session's end; None for a session without an end."""

    @property
    def authenticated(self) -> bool:
        """Return whether requests are served."""
        return self._state is _State.AUTHENTICATED

    @property
    def mechanism(self) -> str:
        """Mechanism of the last accepted handshake."""
        return self._mechanism

    def frame(self, frame: memoryview, now_ms: int, now_s: float) -> Step:
        """Handle a frame while the connection is not authenticated, or re-authenticates. Raises ProtocolError when the connection must
        close at once.
        """
        if self._state is _State.EXCHANGE:
            return self._token(bytes(frame), now_ms, now_s)
        if self._state is _State.OTHER_MECHANISM:
            return Step(Outcome.FAILED, reason=f"the mechanism may not change from {self._mechanism}")
        return self._request(frame)

    def versions_answered(self, *, without_error: bool) -> None:
        """Note the dispatcher's answer to ApiVersions; after an error the client may repeat the request."""
        if without_error:
            self._state = _State.HANDSHAKE

    def begins_again(self, now_s: float) -> bool:
        """Return whether a handshake on an authenticated connection begins a re-authentication; else it is out of order."""
        if self.expires_s is None or (self._again_from_s is not None and now_s < self._again_from_s):
            return False
        self._again_from_s = now_s + _REAUTHENTICATION_PAUSE_S
        self._state = _State.HANDSHAKE
        return True

    def expired(self, now_s: float) -> bool:
        """Return whether the session is over."""
        return self.expires_s is not None and now_s > self.expires_s

    # -- before the exchange ---------------------------------------------------------------------------------------------------------

    def _request(self, frame: memoryview) -> Step:
        try:
            header, offset = decode_request_header(frame)
        except ProtocolError:
            if self._state is _State.START:
                return Step(Outcome.FAILED, reason="the first message is not a Kafka request")
            raise
        if self._state is _State.START:
            self._state = _State.VERSIONS_OR_HANDSHAKE
        if header.api_key == ApiKey.API_VERSIONS:
            if self._state is not _State.VERSIONS_OR_HANDSHAKE:
                raise ProtocolError("ApiVersions must be sent at most once, before the handshake")
            return Step(Outcome.VERSIONS)
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return Step(Outcome.FAILED, reason=f"unexpected Kafka request of type {ApiKey(header.api_key).name} during SASL handshake")
        _check_version(header)
        request, _ = SaslHandshakeRequest.decode_prefix(frame, header.api_version, offset)
        return self._handshake(header, request.mechanism)

    def _handshake(self, header: RequestHeader, mechanism: str) -> Step:
        if mechanism not in self._mechanisms:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = _frame(header, SaslHandshakeResponse(error_code=code, mechanisms=list(self._mechanisms)))
            return Step(Outcome.FAILED, answer, "unsupported SASL mechanism")
        answer = _frame(header, SaslHandshakeResponse(mechanisms=list(self._mechanisms)))
        if self.principal is not None and mechanism != self._mechanism:
            self._state = _State.OTHER_MECHANISM
            return Step(Outcome.ANSWER, answer)
        self._state = _State.EXCHANGE
        self._mechanism = mechanism
        self._exchange = self._new_exchange(mechanism)
        self._in_requests = header.api_version >= 1
        return Step(Outcome.ANSWER, answer)

    # -- the exchange ----------------------------------------------------------------------------------------------------------------

    def _token(self, frame: bytes, now_ms: int, now_s: float) -> Step:
        exchange = self._exchange
        assert exchange is not None
        header: RequestHeader | None = None
        message = frame
        if self._in_requests:
            header, offset = decode_request_header(frame)
            if header.api_key != ApiKey.SASL_AUTHENTICATE:
                reason = f"Unexpected Kafka request of type {ApiKey(header.api_key).name} during SASL authentication."
                return Step(Outcome.OUT_OF_TURN, reason=reason)
            _check_version(header)
            request, _ = SaslAuthenticateRequest.decode_prefix(memoryview(frame), header.api_version, offset)
            message = bytes(request.auth_bytes)
        work = exchange.prepare(message)
        if work is not None:
            self._waiting = (header, message)
            return Step(Outcome.WORK, work=work)
        return self._answer(header, message, now_ms, now_s)

    def resume(self, now_ms: int, now_s: float) -> Step:
        """Continue after the work that a step requested."""
        assert self._waiting is not None
        (header, message), self._waiting = self._waiting, None
        return self._answer(header, message, now_ms, now_s)

    def _answer(self, header: RequestHeader | None, message: bytes, now_ms: int, now_s: float) -> Step:
        exchange = self._exchange
        assert exchange is not None
        try:
            challenge = exchange.answer(message)
            identity = exchange.identity
            if identity is not None:
                self._prove(identity, now_ms)
        except SaslRefused as refused:
            return self._refuse(header, str(refused), str(refused))
        except SaslError as error:
            again = "authentication" if self.principal is None else "re-authentication"
            for_client = f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"
            return self._refuse(header, for_client, f"{for_client}: {error}")
        lifetime_ms = 0 if identity is None else self._begin_session(identity, now_ms, now_s)
        if header is None:
            answer: Sequence[bytes] = [encode_size(len(challenge)), challenge]
        else:
            answer = _frame(header, SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms))
        if identity is None:
            return Step(Outcome.ANSWER, answer)
        self._exchange = None
        self._state = _State.AUTHENTICATED
        return Step(Outcome.AUTHENTICATED, answer)

    def _prove(self, identity: Identity, now_ms: int) -> None:
        if identity.expires_ms is not None and identity.expires_ms <= now_ms:
            raise SaslError("the credential has expired")
        principal = Principal(USER, identity.name, identity.by_token)
        if self.principal is not None and principal != self.principal:
            was = self.principal
            raise SaslRefused(
                f"Cannot change principals during re-authentication from {was.kind}.{was.name}: {principal.kind}.{principal.name}"
            )
        self.principal = principal

    def _begin_session(self, identity: Identity, now_ms: int, now_s: float) -> int:
        """Set the end of the session. Return its length in milliseconds; 0 for no end."""
        limits = [] if identity.expires_ms is None else [identity.expires_ms - now_ms]
        most = self._max_reauth_ms.get(self._mechanism, 0)
        if most > 0:
            limits.append(most)
        self.expires_s = now_s + min(limits) / 1000 if limits else None
        return min(limits) if limits else 0

    def _refuse(self, header: RequestHeader | None, for_client: str, reason: str) -> Step:
        answer = None
        if header is not None:
            answer = _frame(header, SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=for_client))
        return Step(Outcome.FAILED, answer, reason)


def _check_version(header: RequestHeader) -> None:
    api_key = ApiKey(header.api_key)
    if not 0 <= header.api_version <= API_INFO[api_key].max_version:
        raise ProtocolError(f"{api_key.name} is not supported in version {header.api_version}")


def _frame(header: RequestHeader, response: Message) -> Sequence[bytes]:
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    return [b"".join(frame_chunks(head, response.encode_chunks(header.api_version)))]
