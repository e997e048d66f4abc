"""Connections to other nodes, opened when a request is to be sent and kept until they break or are idle (ADR 8).

Each pair of node and purpose has a separate connection, called a line. So a request that waits on the other side (a parked fetch, a commit)
delays only requests for the same purpose. A line has these states:

    idle --send--> dialling --connected, versions known--> ready --idle, or closed with nothing in flight--> idle
                       \\--failed--> backing off <--broken with requests in flight--/
                                        \\--send, after the back-off--> dialling

`PeerTable` decides (no IO, time as an argument), `Peers` performs the decisions with `transport.dial`. No call blocks. Requests wait while
their line is dialled, fail at once while it backs off, and fail when they time out. A dial is given up when no request waits for it any
longer. So the next request finds out that a path works again, without waiting for the end of an old attempt.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from odradek import __version__
from odradek.base.addresses import host_port
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError, ProtocolError
from odradek.base.timing import Alarm, Backoff
from odradek.network.transport import ClientConnection, ConnectionLost, RequestTimedOut, dial
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.negotiation import ApiVersionTable, Negotiation
from odradek.protocol.registry import response_class

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from odradek.base.clock import Clock, TimerHandle
    from odradek.protocol.schema import Message
    from odradek.security.sasl.client import SaslClient

logger = logging.getLogger(__name__)

_RENEWED_AT = 0.85
"""Part of a session's lifetime after which this node authenticates again (SaslClientAuthenticator)."""


class Address(NamedTuple):
    """Address of a node. A negative `node_id` stands for a bootstrap server, whose id is unknown."""

    node_id: int
    host: str
    port: int
    listener: str = ""
    """Name of the listener at this address, which selects TLS and login."""

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def __str__(self) -> str:
        where = host_port(self.host, self.port)
        return where if self.node_id < 0 else f"node {self.node_id} at {where}"


class Line(NamedTuple):
    """Connection to one node for one purpose."""

    node: Address
    purpose: str


class PeerSettings(NamedTuple):
    """Limits of all lines; times are seconds. The defaults are those of Kafka's clients inside a broker."""

    setup_timeout_s: float = 10.0
    """socket.connection.setup.timeout.ms; doubles with every consecutive failure, up to `setup_timeout_max_s`."""
    setup_timeout_max_s: float = 30.0
    backoff_s: float = 0.05
    """Back-off after a failure; doubles with every consecutive failure, up to `backoff_max_s`."""
    backoff_max_s: float = 0.5
    idle_s: float = 600.0
    """connections.max.idle.ms."""
    max_in_flight: int = 5
    """Most requests on the wire of one line."""
    max_waiting: int = 1000
    """Most requests that wait for one line, while it is dialled or its wire is full."""
    max_lines: int = 4096


class Verdict(Enum):
    """Decision about a request."""

    SEND = "send"
    WAIT = "wait"
    DIAL = "dial, and wait"
    REFUSE = "refuse"


class LineState(Enum):
    IDLE = "idle"
    DIALLING = "dialling"
    READY = "ready"
    BACKING_OFF = "backing off"


class _Known:
    __slots__ = ("failures", "state", "until_s", "used_s")

    def __init__(self, now_s: float) -> None:
        self.state = LineState.IDLE
        self.failures = 0
        """Number of consecutive failures."""
        self.until_s = 0.0
        """End of the back-off."""
        self.used_s = now_s


class PeerTable:
    """States of all lines. Times are seconds of one monotonic clock."""

    def __init__(self, settings: PeerSettings) -> None:
        self._settings = settings
        self._backoff = Backoff(settings.backoff_s * 1000, max(settings.backoff_max_s, settings.backoff_s) * 1000)
        self._setup = Backoff(settings.setup_timeout_s * 1000, max(settings.setup_timeout_max_s, settings.setup_timeout_s) * 1000)
        self._lines: dict[Line, _Known] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def state(self, line: Line) -> LineState:
        known = self._lines.get(line)
        return LineState.IDLE if known is None else known.state

    def ask(self, line: Line, now_s: float) -> Verdict:
        """Return how to treat a request for the line. DIAL changes the line's state to dialling."""
        known = self._lines.get(line)
        if known is None:
            if len(self._lines) >= self._settings.max_lines:
                return Verdict.REFUSE
            known = self._lines[line] = _Known(now_s)
        known.used_s = now_s
        if known.state is LineState.READY:
            return Verdict.SEND
        if known.state is LineState.DIALLING:
            return Verdict.WAIT
        if known.state is LineState.BACKING_OFF and now_s < known.until_s:
            return Verdict.REFUSE
        known.state = LineState.DIALLING
        return Verdict.DIAL

    def setup_timeout_s(self, line: Line) -> float:
        """Return how many seconds the current attempt to connect may take."""
        return self._setup.delay_s(self._lines[line].failures + 1)

    def opened(self, line: Line, now_s: float) -> None:
        """Change the line to ready: it is connected and its versions are known."""
        known = self._lines[line]
        known.state, known.failures, known.used_s = LineState.READY, 0, now_s

    def used(self, line: Line, now_s: float) -> None:
        """Reset the idle time of the line."""
        known = self._lines.get(line)
        if known is not None:
            known.used_s = now_s

    def failed(self, line: Line, now_s: float) -> None:
        """Start the back-off: the line could not be opened, or broke while requests were in flight."""
        known = self._lines[line]
        known.failures += 1
        known.until_s = now_s + self._backoff.delay_s(known.failures)
        known.state = LineState.BACKING_OFF

    def closed(self, line: Line) -> None:
        """Change the line to idle: it was closed without requests in flight."""
        self._lines[line].state = LineState.IDLE

    def unused(self, now_s: float) -> list[Line]:
        """Return the lines that were not used for `idle_s` seconds."""
        return [line for line, known in self._lines.items() if now_s - known.used_s >= self._settings.idle_s]

    def forget(self, line: Line) -> None:
        self._lines.pop(line, None)


class _Waiting:
    """Request whose line is being dialled."""

    __slots__ = ("at_least", "at_most", "deadline_s", "request", "result")

    def __init__(self, request: Message, at_most: int | None, at_least: int, deadline_s: float, result: Deferred[Message]) -> None:
        self.request = request
        self.at_most = at_most
        self.at_least = at_least
        self.deadline_s = deadline_s
        self.result = result


class _Link:
    """Connection, or attempt to connect, of one line."""

    __slots__ = ("connection", "reason", "task", "versions", "waiting")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        """Task that dials or authenticates."""
        self.connection: ClientConnection | None = None
        self.versions: ApiVersionTable | None = None
        """API versions of the node; None until the line is ready."""
        self.waiting: dict[_Waiting, TimerHandle] = {}
        """Requests that wait for the line, oldest first, and the timers of their deadlines."""
        self.reason = ""
        """Reason of the last failure."""


class Peers:
    """Sender of requests to other nodes. All calls come from the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        client_id: str,
        settings: PeerSettings | None = None,
        tls: Callable[[str], ssl.SSLContext | None] = lambda listener: None,
        login: Callable[[str, str], SaslClient | None] = lambda listener, host: None,
    ) -> None:
        """Create the sender. `tls` and `login` are called for each new connection.

        `tls` returns the TLS context for a listener name, or None. `login` returns the SASL client for a listener name and a host, or None.
        """
        self._loop = loop
        self._clock = clock
        self._client_id = client_id
        self._settings = settings or PeerSettings()
        self._tls = tls
        self._login = login
        self._table = PeerTable(self._settings)
        self._links: dict[Line, _Link] = {}
        self._unreachable: set[tuple[str, int]] = set()
        """Host and port of each node whose failure has been logged. The node id is not part of the key."""
        self._sweep = Alarm(clock, self._close_unused)
        self._closed = False

    def send(
        self, node: Address, purpose: str, request: Message, *, at_most: int | None = None, at_least: int = 0, timeout_s: float = 30.0
    ) -> Deferred[Message]:
        """Send `request` over the line for `purpose`, in the highest version within the bounds that both sides know.

        The result is the response, which may hold views of the received bytes. It may be there when this method returns. The request must
        hold only bytes in memory.

        Fails with KafkaError. NETWORK_EXCEPTION: no connection could be made, or it broke (the request may have been executed).
        REQUEST_TIMED_OUT: `timeout_s` has passed. UNSUPPORTED_VERSION: no version is known to both sides, or the chosen version cannot
        express the request.
        """
        result: Deferred[Message] = Deferred()
        if self._closed:
            result.fail(_network(f"{node}: the connections of this node are closed"))
            return result
        line = Line(node, purpose)
        now_s = self._clock.monotonic()
        link = self._links.get(line)
        verdict = self._table.ask(line, now_s)
        if verdict is Verdict.REFUSE:
            result.fail(_network(f"{node}: {link.reason if link is not None else 'too many connections to other nodes'}"))
            return result
        if link is None:
            link = self._links[line] = _Link()
            self._sweep_later()
        waiting = _Waiting(request, at_most, at_least, now_s + timeout_s, result)
        if verdict is Verdict.SEND:
            self._transmit(line, link, waiting)
            return result
        if len(link.waiting) >= self._settings.max_waiting:
            result.fail(_network(f"{node}: {self._settings.max_waiting} requests already wait for this connection"))
            return result
        link.waiting[waiting] = self._clock.call_later(timeout_s, self._expired, line, link, waiting)
        if verdict is Verdict.DIAL:
            link.task = self._loop.create_task(self._dial(line, link))
        return result

    def versions(self, node: Address, purpose: str) -> ApiVersionTable | None:
        """Return the API versions of the node, or None when no line to it for this purpose is ready."""
        link = self._links.get(Line(node, purpose))
        return None if link is None else link.versions

    def state(self, node: Address, purpose: str) -> LineState:
        return self._table.state(Line(node, purpose))

    @property
    def lines(self) -> list[Line]:
        """Lines that were used and have not been idle since; `state` returns the state of each."""
        return list(self._links)

    def close(self) -> None:
        """Close every connection. Requests in progress, and all later requests, fail with NETWORK_EXCEPTION."""
        self._closed = True
        self._sweep.close()
        links, self._links = self._links, {}
        for link in links.values():
            self._end_task(link)
            connection, link.connection = link.connection, None
            if connection is not None:
                connection.close()
            self._refuse_waiting(link, _network("the connections of this node are closed"))

    # -- opening -------------------------------------------------------------------------------------------------------------------

    async def _dial(self, line: Line, link: _Link) -> None:
        node, settings = line.node, self._settings
        timeout_s = self._table.setup_timeout_s(line)
        try:
            connection = await dial(
                node.host,
                node.port,
                clock=self._clock,
                client_id=self._client_id,
                timeout_s=timeout_s,
                max_in_flight=settings.max_in_flight,
                max_queued=settings.max_waiting,
                loop=self._loop,
                tls=self._tls(node.listener),
            )
        except Exception as error:
            # Not only ConnectionLost: other nodes tell the addresses, and the resolver rejects some of them with other errors.
            link.task = None
            where = host_port(node.host, node.port)
            reason = str(error).removeprefix(f"cannot connect to {where}: ").removeprefix(f"{where} ")
            self._failed(line, link, reason)
            return
        link.task = None
        link.connection = connection
        self._negotiate(line, link, connection, Negotiation(__version__), timeout_s)
        connection.on_close(lambda error: self._lost(line, link, connection, error))

    def _negotiate(self, line: Line, link: _Link, connection: ClientConnection, negotiation: Negotiation, timeout_s: float) -> None:
        def answered(done: Deferred[memoryview]) -> None:
            if link.connection is not connection or done.error is not None:
                return  # `_lost` handles the failure
            try:
                versions = negotiation.answered(done.result())
            except (KafkaError, ProtocolError) as error:
                self._drop(line, link, f"the ApiVersions request failed: {error}")
                return
            if versions is None:
                self._negotiate(line, link, connection, negotiation, timeout_s)
            else:
                self._log_in(line, link, connection, versions, timeout_s)

        question = [negotiation.question()]
        connection.send(ApiKey.API_VERSIONS, negotiation.version, question, timeout_s=timeout_s).add_callback(answered)

    def _log_in(self, line: Line, link: _Link, connection: ClientConnection, versions: ApiVersionTable, timeout_s: float) -> None:
        try:
            client = self._login(line.node.listener, line.node.host)
        except Exception as error:
            self._drop(line, link, f"cannot log in: {_words(error)}")
            return
        renewed = link.versions is not None
        if client is not None:
            if renewed:
                connection.pause()
            link.task = self._loop.create_task(self._authenticate(line, link, connection, versions, client, timeout_s))
        elif not renewed:
            self._ready(line, link, versions)

    async def _authenticate(
        self, line: Line, link: _Link, connection: ClientConnection, versions: ApiVersionTable, client: SaslClient, timeout_s: float
    ) -> None:
        """Authenticate, for the first time or again before the session ends (KIP-368); then requests wait until the end.

        The task is cancelled when the connection is gone, because `link.task` may then be another dial.
        """
        from odradek.network.login import LoginRefused, log_in

        try:
            lifetime_ms = await log_in(connection, versions, client, timeout_s)
        except Exception as error:
            # Not only OdradekError and ProtocolError: a SASL client calls libraries, which raise other errors.
            link.task = None
            words = _words(error) if not isinstance(error, LoginRefused) else f"{error.code.name}: {error}"
            self._drop(line, link, f"cannot log in by {client.mechanism}: {words}")
            return
        link.task = None
        if link.versions is None:
            self._ready(line, link, versions)
        connection.resume()
        if lifetime_ms > 0:
            self._clock.call_later(lifetime_ms * _RENEWED_AT / 1000, self._renew, line, link, connection, versions, timeout_s)

    def _renew(self, line: Line, link: _Link, connection: ClientConnection, versions: ApiVersionTable, timeout_s: float) -> None:
        if link.connection is connection and link.task is None and not self._closed:
            self._log_in(line, link, connection, versions, timeout_s)

    def _ready(self, line: Line, link: _Link, versions: ApiVersionTable) -> None:
        link.versions = versions
        self._table.opened(line, self._clock.monotonic())
        if line.node.place in self._unreachable:
            self._unreachable.discard(line.node.place)
            logger.info("%s can be reached again", line.node)
        waiting, link.waiting = link.waiting, {}
        for each, timer in waiting.items():
            timer.cancel()
            self._transmit(line, link, each)

    def _expired(self, line: Line, link: _Link, waiting: _Waiting) -> None:
        """Time out a request whose line is not ready. When no other request waits, give up the attempt to connect."""
        del link.waiting[waiting]
        waiting.result.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{line.node}: no connection within the time limit"))
        if not link.waiting:
            self._drop(line, link, "no connection within the time limit")

    # -- sending -------------------------------------------------------------------------------------------------------------------

    def _transmit(self, line: Line, link: _Link, waiting: _Waiting) -> None:
        connection, versions, request, result = link.connection, link.versions, waiting.request, waiting.result
        if connection is None or versions is None or connection.closed:
            result.fail(_network(f"{line.node}: {link.reason or 'the connection is gone'}"))
            return
        try:
            version = versions.choose(ApiKey(request.API_KEY), at_most=waiting.at_most, at_least=waiting.at_least)
            body = request.encode_chunks(version)
        except UnsupportedVersionError as error:
            result.fail(KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{line.node}: {error}"))
            return
        except OdradekError as error:
            result.fail(error)
            return

        def answered(done: Deferred[memoryview]) -> None:
            now_s = self._clock.monotonic()
            self._table.used(line, now_s)
            if done.error is not None:
                late = isinstance(done.error, RequestTimedOut) and now_s >= waiting.deadline_s
                code = ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NETWORK_EXCEPTION
                result.fail(KafkaError(code, f"{line.node}: {done.error}"))
                return
            try:
                response = response_class(request.API_KEY).decode(done.result(), version)
            except ProtocolError as error:
                result.fail(_network(f"{line.node}: malformed response: {error}"))
                if link.connection is connection:
                    self._drop(line, link, f"malformed response: {error}")
                return
            result.complete(response)

        left_s = max(waiting.deadline_s - self._clock.monotonic(), 0.0)
        connection.send(request.API_KEY, version, body, timeout_s=left_s).add_callback(answered)

    # -- end of a connection -----------------------------------------------------------------------------------------------------------

    def _lost(self, line: Line, link: _Link, connection: ClientConnection, error: ConnectionLost) -> None:
        """Handle the end of a connection by the other side. Does nothing when the line has another connection by now."""
        if link.connection is not connection:
            return
        self._end_task(link)
        opened = link.versions is not None
        busy = connection.lost_requests or connection.in_flight
        link.connection = link.versions = None
        if opened and not busy:
            self._table.closed(line)
        else:
            self._failed(line, link, str(error), logged=not opened)

    def _drop(self, line: Line, link: _Link, reason: str) -> None:
        """Close the connection, or give up the attempt to connect, and record a failure."""
        self._end_task(link)
        connection, link.connection, link.versions = link.connection, None, None
        self._failed(line, link, reason)
        if connection is not None:
            connection.close()

    @staticmethod
    def _end_task(link: _Link) -> None:
        task, link.task = link.task, None
        if task is not None:
            task.cancel()

    def _failed(self, line: Line, link: _Link, reason: str, *, logged: bool = True) -> None:
        link.reason = reason
        if self._closed:
            return
        self._table.failed(line, self._clock.monotonic())
        if logged and line.node.place not in self._unreachable:
            self._unreachable.add(line.node.place)
            logger.warning("%s cannot be reached: %s", line.node, reason)
        self._refuse_waiting(link, _network(f"{line.node}: {reason}"))

    def _refuse_waiting(self, link: _Link, error: KafkaError) -> None:
        waiting, link.waiting = link.waiting, {}
        for each, timer in waiting.items():
            timer.cancel()
            each.result.fail(error)

    def _sweep_later(self) -> None:
        if not self._sweep.is_set:
            self._sweep.set(max(self._settings.idle_s / 4, 0.05))

    def _close_unused(self) -> None:
        for line in self._table.unused(self._clock.monotonic()):
            link = self._links.get(line)
            if link is not None:
                if link.task is not None or link.waiting or (link.connection is not None and link.connection.in_flight):
                    continue
                del self._links[line]
                connection, link.connection, link.versions = link.connection, None, None
                if connection is not None:
                    connection.close()
            self._table.forget(line)
            if not any(each.node.place == line.node.place for each in self._links):
                self._unreachable.discard(line.node.place)
        if self._links:
            self._sweep_later()


def _words(error: Exception) -> str:
    """Return the text of an error, with the kind of an error that is not Odradek's own."""
    return str(error) if isinstance(error, OdradekError) else f"{type(error).__name__}: {error}"


def _network(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, reason)
