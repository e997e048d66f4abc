"""Connections to other nodes, opened when a request is to be sent and kept until they break or are idle (ADR 8).

Each pair of node and purpose has a separate connection, called a line. So a request that waits on the other side (a parked fetch, a commit)
delays only requests for the same purpose. `network.dialled` has the states of a line.

No call blocks. Requests wait while their line is dialled, fail at once while it backs off, and fail when they time out. A dial is given up
when no request waits for it any longer. So the next request finds out that a path works again, without waiting for the end of an old
attempt.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.addresses import host_port
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError, ProtocolError
from odradek.base.timing import Alarm, Backoff
from odradek.network.dialled import Attempts, Dialled, DialState, Verdict
from odradek.network.dialling import DialledConnection
from odradek.network.transport import ClientConnection, ConnectionLost, RequestTimedOut, dial
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.registry import response_class

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from odradek.base.clock import Clock
    from odradek.protocol.negotiation import ApiVersionTable
    from odradek.protocol.schema import Message
    from odradek.security.sasl.client import SaslClient

logger = logging.getLogger(__name__)

_CLOSED = "the connections of this node are closed"


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


class Link(DialledConnection[None]):
    """Connection of one line."""

    __slots__ = ("_memory", "_peers", "line", "reason")

    def __init__(self, peers: Peers, line: Line, clock: Clock) -> None:
        settings = peers.settings
        reconnect = Backoff(settings.backoff_s * 1000, settings.backoff_max_s * 1000)
        setup = Backoff(settings.setup_timeout_s * 1000, max(settings.setup_timeout_s, settings.setup_timeout_max_s) * 1000)
        life: Dialled[Deferred[None]] = Dialled(
            Attempts(reconnect, setup), patient=False, idle_s=settings.idle_s, most_waiting=settings.max_waiting
        )
        super().__init__(clock, life)
        self._peers = peers
        self.line = line
        self._memory = Alarm(clock, lambda: peers.forget(self))
        """Alarm at which a line without a connection is forgotten."""
        self.reason = ""
        """Reason of the last failure."""

    def expired(self, waiting: Deferred[None]) -> None:
        """Time out a request that waits for the line. When no other request waits, give up the attempt to connect."""
        reason = "no connection within the time limit"
        waiting.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.line.node}: {reason}"))
        if self.life.give_up(waiting):
            self.end(ConnectionLost(reason))

    def send(self, request: Message, at_most: int | None, at_least: int, deadline_s: float, result: Deferred[Message]) -> None:
        connection, versions, node = self.connection, self.versions, self.line.node
        if connection is None or versions is None:
            result.fail(_network(f"{node}: {self.reason}"))
            return
        try:
            version = versions.choose(ApiKey(request.API_KEY), at_most=at_most, at_least=at_least)
            body = request.encode_chunks(version)
        except UnsupportedVersionError as error:
            result.fail(KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{node}: {error}"))
            return
        except OdradekError as error:
            result.fail(error)
            return

        def answered(done: Deferred[memoryview]) -> None:
            if done.error is not None:
                late = isinstance(done.error, RequestTimedOut) and self._clock.monotonic() >= deadline_s
                code = ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NETWORK_EXCEPTION
                result.fail(KafkaError(code, f"{node}: {done.error}"))
                return
            try:
                response = response_class(request.API_KEY).decode(done.result(), version)
            except ProtocolError as error:
                reason = f"malformed response: {error}"
                result.fail(_network(f"{node}: {reason}"))
                if self.connection is connection:
                    self.end(ProtocolError(reason))
                return
            result.complete(response)

        left_s = max(deadline_s - self._clock.monotonic(), 0.0)
        connection.send(request.API_KEY, version, body, timeout_s=left_s).add_callback(answered)

    async def _open(self, timeout_s: float) -> int:
        node, settings = self.line.node, self._peers.settings
        try:
            connection = await dial(
                node.host,
                node.port,
                clock=self._clock,
                client_id=self._peers.client_id,
                timeout_s=timeout_s,
                max_in_flight=settings.max_in_flight,
                max_queued=settings.max_waiting,
                tls=self._peers.tls(node.listener),
            )
        except Exception as error:
            where = host_port(*node.place)
            raise ConnectionLost(str(error).removeprefix(f"cannot connect to {where}: ").removeprefix(f"{where} ")) from None
        try:
            return await self._greet(connection)
        except (KafkaError, ProtocolError) as error:
            raise ConnectionLost(f"the ApiVersions request failed: {error}") from None

    async def _log_in(self, connection: ClientConnection, versions: ApiVersionTable, timeout_s: float) -> int:
        from odradek.network.login import LoginRefused, log_in

        by = ""
        try:
            client = self._peers.login(self.line.node.listener, self.line.node.host)
            if client is None:
                return 0
            by = f" by {client.mechanism}"
            return await log_in(connection, versions, client, timeout_s)
        except ConnectionLost:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            if isinstance(error, OdradekError):
                words = f"{error.code.name}: {error}" if isinstance(error, LoginRefused) else str(error)
            raise OdradekError(f"cannot log in{by}: {words}") from None

    def _opened(self, connection: ClientConnection, versions: ApiVersionTable) -> None:
        node = self.line.node
        if node.place in self._peers.unreachable:
            self._peers.unreachable.discard(node.place)
            logger.info("%s can be reached again", node)

    def _ended(self, error: BaseException, *, opened: bool) -> None:
        self.reason = str(error)
        if self.life.state is DialState.CLOSED:
            self._memory.close()
            return
        self._memory.set_at(self._clock.monotonic() + self.life.idle_s)
        node = self.line.node
        if node.place not in self._peers.unreachable and not (opened and isinstance(error, ConnectionLost)):
            self._peers.unreachable.add(node.place)
            logger.warning("%s cannot be reached: %s", node, self.reason)


class Peers:
    """Sender of requests to other nodes. All calls come from the loop's thread."""

    def __init__(
        self,
        clock: Clock,
        client_id: str,
        settings: PeerSettings | None = None,
        tls: Callable[[str], ssl.SSLContext | None] = lambda listener: None,
        login: Callable[[str, str], SaslClient | None] = lambda listener, host: None,
    ) -> None:
        """Create the sender. `tls` and `login` are called for each new connection.

        `tls` returns the TLS context for a listener name, or None. `login` returns the SASL client for a listener name and a host, or None.
        """
        self._clock = clock
        self.client_id = client_id
        self.settings = settings or PeerSettings()
        self.tls = tls
        self.login = login
        self.lines: dict[Line, Link] = {}
        """Lines that were used and have not been idle since."""
        self.unreachable: set[tuple[str, int]] = set()
        """Host and port of each node whose failure has been logged. The node id is not part of the key."""
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
            result.fail(_network(f"{node}: {_CLOSED}"))
            return result
        line = Line(node, purpose)
        link = self.lines.get(line)
        if link is None:
            if len(self.lines) >= self.settings.max_lines:
                result.fail(_network(f"{node}: too many connections to other nodes"))
                return result
            link = self.lines[line] = Link(self, line, self._clock)
        deadline_s = self._clock.monotonic() + timeout_s
        if link.is_open:
            link.send(request, at_most, at_least, deadline_s, result)
            return result
        waiting: Deferred[None] = Deferred()
        if link.ask(waiting) is Verdict.REFUSE:
            full = f"{self.settings.max_waiting} requests already wait for this connection"
            result.fail(_network(f"{node}: {link.reason if link.life.state is DialState.BACKING_OFF else full}"))
            return result
        timer = self._clock.call_later(timeout_s, link.expired, waiting)

        def ready(done: Deferred[None]) -> None:
            timer.cancel()
            if done.error is None:
                link.send(request, at_most, at_least, deadline_s, result)
            else:
                result.fail(done.error if isinstance(done.error, KafkaError) else _network(f"{node}: {done.error}"))

        waiting.add_callback(ready)
        return result

    def close(self) -> None:
        """Close every connection. Requests in progress, and all later requests, fail with NETWORK_EXCEPTION."""
        self._closed = True
        lines, self.lines = self.lines, {}
        for link in lines.values():
            link.close(ConnectionLost(_CLOSED))

    def forget(self, link: Link) -> None:
        """Forget a line that has no connection."""
        if link.life.state is DialState.IDLE or link.life.state is DialState.BACKING_OFF:
            del self.lines[link.line]
            link.close(ConnectionLost("the line is forgotten"))
            place = link.line.node.place
            if not any(each.node.place == place for each in self.lines):
                self.unreachable.discard(place)


def _network(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, reason)
