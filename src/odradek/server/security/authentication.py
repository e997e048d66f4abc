"""SASL in front of the dispatcher: on listeners with SASL only requests of authenticated clients get past (KIP-43, KIP-152, KIP-368).

`server.security.sasl_session` decides the meaning of each frame. This module has the connections, the delay of refusals and the limits:

- A message before authentication has at most sasl.server.max.receive.size bytes. Its memory is not shared between clients
  (`Acceptor.login_pool`).
- An authentication takes at most `DEADLINE_S`.
- At most `MOST_DELAYED` refused connections wait for their response; a further refusal ends the wait of the oldest.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.base.timing import Alarm
from odradek.handlers.context import RequestContext
from odradek.network.limits import QuietLog
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_request_header
from odradek.security.sasl.bearer_tokens import validate_unsecured
from odradek.security.sasl.oauthbearer import OAuthBearerServer, Validate
from odradek.security.sasl.scram import SCRAM_MECHANISMS
from odradek.security.sasl.scram_server import ScramCredential, ScramServer
from odradek.security.sasl.server import PlainServer, ServerExchange
from odradek.security.tokens import TokenFacts, TokenLogins
from odradek.server.security.bearer_keys import BearerKeys
from odradek.server.security.sasl_session import Outcome, SaslSession, Step

if TYPE_CHECKING:
    from odradek.config.sasl import ListenerSasl
    from odradek.handlers.services import Services
    from odradek.network.chunks import Answer, Chunk
    from odradek.network.connection import Connection
    from odradek.network.inbound import FrameHandler
    from odradek.protocol.headers import RequestHeader
    from odradek.server.security.kerberos import KerberosAcceptor
    from odradek.server.upkeep.jobs import Jobs

    Refuse = Callable[[RequestContext, RequestHeader, memoryview, int, KafkaError], Sequence[Chunk]]
    """See `Dispatcher.refusal`."""

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 30.0
"""Seconds that an authentication may take. Kafka has no limit but connections.max.idle.ms."""
MOST_DELAYED: Final = 1000
LOOK_S: Final = 1.0
"""Seconds between two searches for connections that exceed `DEADLINE_S` or are closed."""
_EARLY_S: Final = 1e-6
"""Seconds by which sums of floats may miss the due time."""
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_NO_ERROR: Final = b"\0\0"
_CODES: Final = {name: code for code, name in SCRAM_MECHANISMS.items()}


class SaslFrames:
    """`network.acceptor.FrameHandler` in front of another frame handler. Everything runs on the loop, except for slow work."""

    def __init__(
        self,
        behind: FrameHandler,
        services: Services,
        refuse: Refuse,
        jobs: Jobs,
        listeners: Mapping[str, ListenerSasl],
        *,
        request_size: int,
        failed_delay_s: float,
    ) -> None:
        """`listeners`: the listeners with SASL, by name. `request_size`: most bytes of a request after authentication."""
        self._behind = behind
        self._services = services
        self._refuse_request = refuse
        self._clock = services.clock
        self._jobs = jobs
        self._listeners = dict(listeners)
        self._request_size = request_size
        self._failed_delay_s = failed_delay_s
        self._loaded = False
        self._bearers: dict[str, BearerKeys] = {}
        self._kerberos: dict[str, KerberosAcceptor] = {}
        for name, each in listeners.items():
            self.add(name, each)
        self._tokens: TokenLogins | None = None
        if services.token_secret is not None:
            self._tokens = TokenLogins(services.token_secret, self._token, secrets.token_bytes)
        self._log = QuietLog(logger, services.clock)
        self._pending: dict[Connection, float] = {}
        """Connection that is authenticating -> monotonic seconds of its deadline, oldest first."""
        self._delayed: dict[Connection, Callable[[], object]] = {}
        """Connection that waits for its refusal -> function that ends the wait, oldest first."""
        self._look = Alarm(self._clock, self._close_late)

    def add(self, name: str, sasl: ListenerSasl) -> list[Deferred[object]]:
        """Add a listener, or replace the listener of that name. Return the Deferreds of `load` for that listener; none before `load`."""
        self.remove(name)
        self._listeners[name] = sasl
        loading: list[BearerKeys | KerberosAcceptor] = []
        if sasl.bearer is not None and sasl.bearer.unsecured is None:
            keys = self._bearers[name] = BearerKeys(sasl.bearer, self._clock, self._jobs)
            loading.append(keys)
        if sasl.kerberos is not None:
            from odradek.server.security.kerberos import KerberosAcceptor

            acceptor = self._kerberos[name] = KerberosAcceptor(name, sasl.kerberos, self._jobs)
            loading.append(acceptor)
        return [cast("Deferred[object]", each.load()) for each in loading] if self._loaded else []

    def remove(self, name: str) -> None:
        """Forget all state of a listener whose connections have been closed; without effect for a listener without SASL."""
        self._listeners.pop(name, None)
        self._kerberos.pop(name, None)
        keys = self._bearers.pop(name, None)
        if keys is not None:
            keys.close()

    def load(self) -> list[Deferred[object]]:
        """Read the keys that must be known before the first connection. The returned Deferreds fail with ConfigError."""
        self._loaded = True
        loading: list[BearerKeys | KerberosAcceptor] = [*self._bearers.values(), *self._kerberos.values()]
        return [cast("Deferred[object]", each.load()) for each in loading]

    # -- the acceptor's side ---------------------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """Begin the authentication of an admitted connection."""
        sasl = self._listeners.get(connection.listener.name)
        if sasl is not None:
            connection.session = SaslSession(sasl.mechanisms, sasl.max_reauth_ms, partial(self._new_exchange, sasl))
            self._await(connection, sasl)

    def may_follow(self, frame: memoryview) -> bool:
        """See `FrameHandler`; a connection that is authenticating has no requests that others may follow."""
        return self._behind.may_follow(frame)

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        """See `FrameHandler`."""
        return self._behind.goes_first(connection, head)

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        session = connection.session
        if session is None:
            return self._behind.handle_frame(connection, frame)
        assert isinstance(session, SaslSession)
        if session.authenticated:
            now_s = self._clock.monotonic()
            if bytes(frame[:2]) != _HANDSHAKE or not session.begins_again(now_s):
                if session.expired(now_s):
                    raise ProtocolError("its session has expired, and it has not authenticated again")
                return self._behind.handle_frame(connection, frame)
            sasl = self._listeners.get(connection.listener.name)
            if sasl is None:
                raise ProtocolError("its listener was removed")
            self._await(connection, sasl)
        return self._perform(connection, session, frame, session.frame(frame, self._clock.time_ms(), self._clock.monotonic()))

    # -- what a step asks for --------------------------------------------------------------------------------------------------------

    def _perform(self, connection: Connection, session: SaslSession, frame: memoryview, step: Step) -> Answer:
        outcome = step.outcome
        if outcome is Outcome.ANSWER:
            return step.answer
        if outcome is Outcome.AUTHENTICATED:
            self._authenticated(connection, session)
            return step.answer
        if outcome is Outcome.VERSIONS:
            return self._versions(connection, session, frame)
        if outcome is Outcome.WORK:
            return self._work(connection, session, frame, step)
        if outcome is Outcome.OUT_OF_TURN:
            return self._refuse(connection, self._out_of_order(connection, frame, step.reason), step.reason)
        return self._refuse(connection, step.answer, step.reason)

    def _versions(self, connection: Connection, session: SaslSession, frame: memoryview) -> Answer:
        answer = self._behind.handle_frame(connection, frame)
        if isinstance(answer, Deferred) or answer is None:
            raise ProtocolError("ApiVersions has no response")
        # Size and correlation id stand before the error code in every version: clients can read the error before they know the version.
        start = b"".join([bytes(chunk) for chunk in answer[:2] if isinstance(chunk, (bytes, bytearray, memoryview))])[:10]
        session.versions_answered(without_error=start[8:10] == _NO_ERROR)
        return answer

    def _work(self, connection: Connection, session: SaslSession, frame: memoryview, step: Step) -> Answer:
        assert step.work is not None
        result: Deferred[Sequence[Chunk] | None] = Deferred()

        def done(work: Deferred[object]) -> None:
            if connection.closed:
                return
            try:
                if work.error is not None:
                    raise work.error
                answer = self._perform(connection, session, frame, session.resume(self._clock.time_ms(), self._clock.monotonic()))
            except Exception as error:
                result.fail(error)
                return
            if isinstance(answer, Deferred):
                answer.into(result)
            else:
                result.complete(answer)

        self._jobs.run(step.work).add_callback(done)
        return result

    def _out_of_order(self, connection: Connection, frame: memoryview, reason: str) -> Sequence[Chunk]:
        header, offset = decode_request_header(frame)
        listener = connection.listener
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            connection_id=connection.connection_id,
            listener_name=listener.name,
            listener_scope=listener.scope,
            peer_host=connection.peer_host,
            received_at=self._clock.monotonic(),
            services=self._services,
        )
        return self._refuse_request(context, header, frame, offset, KafkaError(ErrorCode.ILLEGAL_SASL_STATE, reason))

    def _authenticated(self, connection: Connection, session: SaslSession) -> None:
        self._pending.pop(connection, None)
        assert session.principal is not None
        connection.principal = session.principal
        connection.logged_in(self._request_size)
        if session.expires_s is None:
            connection.session = None

    # -- refusals --------------------------------------------------------------------------------------------------------------------

    def _refuse(self, connection: Connection, answer: Sequence[Chunk] | None, reason: str) -> Answer:
        """Answer a failed authentication after the delay, which slows down the guessing of passwords; then close the connection."""
        self._pending.pop(connection, None)
        self._log.warning("failed authentication of %s: %s", connection.connection_id, reason)
        result: Deferred[Sequence[Chunk] | None] = Deferred()
        due_s = self._clock.monotonic() + self._failed_delay_s

        def look() -> None:
            # Timers of the loop count whole milliseconds from the beginning of the loop iteration, and so may fire early.
            left_s = due_s - self._clock.monotonic()
            if left_s > _EARLY_S:
                alarm.set(max(left_s, 0.001))
            else:
                end()

        def end() -> None:
            alarm.close()
            self._delayed.pop(connection, None)
            result.complete(answer)
            # Close after the loop iteration in which the response is sent.
            self._clock.call_later(0, connection.close)

        alarm = Alarm(self._clock, look)
        alarm.set(self._failed_delay_s)
        self._delayed[connection] = end
        if len(self._delayed) > MOST_DELAYED:
            next(iter(self._delayed.values()))()
        return result

    # -- authentications that take too long -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Connections that have not authenticated yet."""
        return len(self._pending)

    def _await(self, connection: Connection, sasl: ListenerSasl) -> None:
        connection.await_login(sasl.max_receive_size)
        self._pending[connection] = self._clock.monotonic() + DEADLINE_S
        if not self._look.is_set:
            self._look.set(LOOK_S)

    def _close_late(self) -> None:
        now_s = self._clock.monotonic()
        for connection, until_s in list(self._pending.items()):
            if connection.closed:
                del self._pending[connection]
            elif connection.delayed:
                # It is not read yet (max.connection.creation.rate), so it cannot authenticate.
                self._pending[connection] = now_s + DEADLINE_S
            elif now_s >= until_s:
                del self._pending[connection]
                self._log.warning("closing %s: it has not authenticated within %g s", connection.connection_id, DEADLINE_S)
                connection.abort()
        if self._pending:
            self._look.set(LOOK_S)

    def close(self) -> None:
        """Stop the search for late authentications, end the delays of refusals, and close the bearer keys."""
        for end in list(self._delayed.values()):
            end()
        for each in self._bearers.values():
            each.close()
        self._look.close()

    # -- the exchanges ---------------------------------------------------------------------------------------------------------------

    def _new_exchange(self, sasl: ListenerSasl, mechanism: str) -> ServerExchange:
        if mechanism == "PLAIN":
            return PlainServer(sasl.users)
        if mechanism == "OAUTHBEARER":
            return OAuthBearerServer(self._validate(sasl))
        if mechanism == "GSSAPI":
            return self._kerberos[sasl.listener].exchange()
        return ScramServer(mechanism, partial(self._scram_credential, _CODES[mechanism]), secrets.token_urlsafe(24), self._tokens)

    def _validate(self, sasl: ListenerSasl) -> Validate:
        assert sasl.bearer is not None
        rules = sasl.bearer.unsecured
        if rules is not None:
            return lambda token: validate_unsecured(token, rules, self._clock.time_ms())
        return self._bearers[sasl.listener].validate

    def _token(self, token_id: str) -> TokenFacts | None:
        return self._services.metadata.image.delegation_tokens.tokens.get(token_id)

    def _scram_credential(self, code: int, name: str) -> ScramCredential | None:
        return self._services.metadata.image.scram.credentials.get((code, name))
