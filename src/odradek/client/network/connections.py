"""Connections of a client: dialled when they are needed, made ready, watched, and closed when idle.

A node has up to three connections, so that a long-polling Fetch delays neither requests for metadata or offsets nor heartbeats. A
connection is made ready in three steps:
1. Every address of the server's name is tried in turn, each within socket.connection.setup.timeout.ms, with TLS where that is configured.
2. ApiVersions tells what the node serves. Until then only a small response is accepted, because the server may not be a broker.
3. With SASL, the client authenticates itself, and again before its session ends (KIP-368).
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from math import inf
from typing import Literal

from odradek.base.addresses import host_port
from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ProtocolError
from odradek.base.timing import Backoff
from odradek.client.failures import AuthenticationFailed, ClientClosed, NoBrokersAvailable
from odradek.client.metrics import ClientMetrics
from odradek.client.network import connection_attempts
from odradek.client.network.addresses import addresses_of
from odradek.client.security.authentication import Authenticator
from odradek.client.security.tls import explained, has_certificate, tls_context
from odradek.client.settings.common_keys import (
    CLIENT_ID,
    CONNECTIONS_MAX_IDLE_MS,
    RECEIVE_BUFFER_BYTES,
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    SECURITY_PROTOCOL,
    SEND_BUFFER_BYTES,
    SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS,
    SOCKET_CONNECTION_SETUP_TIMEOUT_MS,
)
from odradek.client.settings.config import ClientConfig
from odradek.network.dialled import Attempts, Dialled, DialState
from odradek.network.dialling import DialledConnection
from odradek.network.transport import ClientConnection, ConnectionLost, RequestTimedOut, TlsFailed, dial
from odradek.protocol.negotiation import ApiVersionTable

Channel = Literal["control", "data", "coordinator"]
BOOTSTRAP = -1
"""Node id that stands for any server of bootstrap.servers."""
Servers = Callable[[], Awaitable[list[tuple[str, int]]]]
"""Function that returns the (host, port) pairs of a node, which are tried in turn."""

MAX_IN_FLIGHT = 100
"""Most requests in flight on a connection; further requests wait."""
MAX_QUEUED = 10_000
MAX_RESPONSE = 1 << 30
"""Largest accepted response in bytes. A Fetch response has at least one whole batch, whatever fetch.max.bytes says."""
_MAX_FIRST_RESPONSE = 1 << 20


class Node:
    """Open connection to a node, and the API versions of its broker."""

    __slots__ = ("address", "connection", "node_id", "versions")

    def __init__(self, node_id: int, connection: ClientConnection, versions: ApiVersionTable, address: str = "") -> None:
        self.node_id = node_id
        self.connection = connection
        self.versions = versions
        self.address = address


class Connections:
    """Connections of one client; live in one event loop.

    Creating the object raises ConfigError when keys or certificates cannot be used.
    """

    def __init__(self, config: ClientConfig, clock: Clock, rng: random.Random) -> None:
        self.config = config
        self.clock = clock
        self.rng = rng
        self.tls = tls_context(config)
        self.authenticator = Authenticator.of(config, clock, rng)
        setup_ms = config[SOCKET_CONNECTION_SETUP_TIMEOUT_MS]
        setup = Backoff(setup_ms, max(setup_ms, config[SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS]), rng)
        reconnect = Backoff(config[RECONNECT_BACKOFF_MS], config[RECONNECT_BACKOFF_MAX_MS], rng)
        self._attempts: defaultdict[int, Attempts] = defaultdict(lambda: Attempts(reconnect, setup))
        """Failed attempts to connect to each node, of all channels."""
        self._throttled_until_s: dict[int, float] = {}
        self.metrics = ClientMetrics(config)
        self._lines: dict[tuple[int, Channel], _Line] = {}
        self._closed = False

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self._closed = True
        lines, self._lines = self._lines, {}
        tasks = [line.close(asyncio.CancelledError()) for line in lines.values()]
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    # -- look-up --------------------------------------------------------------------------------------------------------------------

    def get(self, node_id: int, channel: Channel) -> Node | None:
        """Return the connection to the node if it is open, else None."""
        line = self._lines.get((node_id, channel))
        node = None if line is None else line.node
        return node if node is not None and not node.connection.closed else None

    async def node(self, node_id: int, channel: Channel, servers: Servers) -> Node:
        """Return an open connection to the node; dial the node if needed. Calls at the same time share one connection.

        Raises ConnectionLost or NoBrokersAvailable when dialling fails, AuthenticationFailed when it would fail again, ClientClosed after
        `close`.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        node = self.get(node_id, channel)
        if node is not None:
            self._use(node)
            return node
        line = self._lines.get((node_id, channel))
        if line is None:
            line = self._lines[(node_id, channel)] = _Line(self, node_id, self._attempts[node_id])
        line.servers = servers
        wanted: Deferred[Node] = Deferred()
        line.ask(wanted)
        return await wanted

    def least_loaded(self, *, every_channel: bool = False) -> Node | None:
        """Return the open control connection with the fewest requests in flight; None without one.

        Nodes that throttle the client come last. With `every_channel`, connections of all channels count.
        """
        found = [line.node for (_, channel), line in self._lines.items() if every_channel or channel == "control"]
        candidates = [node for node in found if node is not None and not node.connection.closed]
        if not candidates:
            return None
        node = min(candidates, key=lambda each: (self.throttled_for_s(each.node_id), each.connection.in_flight))
        self._use(node)
        return node

    def connect_in_s(self, node_id: int) -> float:
        """Return the seconds until the node may be dialled; 0 when it may be dialled now."""
        return self._attempts[node_id].pause_s(self.clock.monotonic())

    def drop(self, node_ids: list[int]) -> None:
        """Close all connections to these nodes, and forget their failures."""
        for node in self._open_nodes(node_ids):
            node.connection.close()
        for node_id in node_ids:
            self._attempts[node_id].succeeded()

    def throttle(self, node_id: int, throttle_time_ms: int) -> None:
        """Send no request to the node for `throttle_time_ms`, on any of its connections (KIP-219)."""
        now_s = self.clock.monotonic()
        self._throttled_until_s[node_id] = now_s + max(self.throttled_for_s(node_id), throttle_time_ms / 1000)
        self.metrics.throttled(node_id, throttle_time_ms, now_s)
        for node in self._open_nodes([node_id]):
            node.connection.hold(throttle_time_ms / 1000)

    def throttled_for_s(self, node_id: int) -> float:
        """Return the seconds for which no request may be sent to the node; 0 when a request may be sent."""
        return max(self._throttled_until_s.get(node_id, 0.0) - self.clock.monotonic(), 0.0)

    def without_answer(self, node: Node, error: ConnectionLost) -> ConnectionLost:
        """Return the error of a request without a response, with a hint if the first request after ApiVersions failed.

        A broker that requires SASL answers ApiVersions and closes the connection at the next request.
        """
        if self.authenticator is not None or node.connection.answers > 2:
            return error
        protocol = self.config[SECURITY_PROTOCOL].upper()
        return ConnectionLost(
            f"{node.address}: {error} at the first request; check that this listener's protocol is security.protocol={protocol}"
        )

    def _open_nodes(self, node_ids: list[int]) -> list[Node]:
        return [line.node for line in self._lines.values() if line.node is not None and line.node.node_id in node_ids]

    def _use(self, node: Node) -> None:
        """Count the node as used: it is not closed as idle before its caller has sent something."""
        node.connection.active_s = self.clock.monotonic()


class _Line(DialledConnection[Node]):
    """Connection of one channel to one node."""

    __slots__ = ("_address", "_owner", "node", "node_id", "servers")

    servers: Servers
    """Servers of the next dial."""

    def __init__(self, owner: Connections, node_id: int, attempts: Attempts) -> None:
        idle_ms = owner.config[CONNECTIONS_MAX_IDLE_MS]
        life: Dialled[Deferred[Node]] = Dialled(attempts, patient=True, idle_s=idle_ms / 1000 if idle_ms >= 0 else inf)
        super().__init__(owner.clock, life, owner.config[REQUEST_TIMEOUT_MS] / 1000, owner.rng)
        self._owner = owner
        self._address = ""
        """HOST:PORT of the server that was dialled last."""
        self.node_id = node_id
        self.node: Node | None = None

    async def _open(self, timeout_s: float) -> int:
        reasons: list[str] = []
        for host, port in await self.servers():
            self._address = host_port(host, port)
            connection_attempts.dialling(self.node_id, self._address)
            try:
                connection = await self._connect(host, port, timeout_s)
                try:
                    return await self._greet(connection)
                except Exception as error:
                    raise self._explained(error) from None
            except ConnectionLost as error:
                connection_attempts.failed(self.node_id, self._address, str(error))
                reasons.append(str(error))
        raise NoBrokersAvailable(reasons) if self.node_id == BOOTSTRAP else ConnectionLost(reasons[-1])

    async def _connect(self, host: str, port: int, timeout_s: float) -> ClientConnection:
        config = self._owner.config
        reasons: dict[str, str] = {}
        for address in await addresses_of(host, port):
            try:
                return await dial(
                    address,
                    port,
                    name=host,
                    clock=self._clock,
                    client_id=config[CLIENT_ID],
                    timeout_s=timeout_s,
                    max_in_flight=MAX_IN_FLIGHT,
                    max_queued=MAX_QUEUED,
                    max_response=_MAX_FIRST_RESPONSE,
                    tls=self._owner.tls,
                    send_buffer=config[SEND_BUFFER_BYTES],
                    receive_buffer=config[RECEIVE_BUFFER_BYTES],
                )
            except TlsFailed as error:
                raise self._explained(error) from None
            except ConnectionLost as error:
                reasons[address] = str(error)
        if len(set(reasons.values())) == 1:
            raise ConnectionLost(next(iter(reasons.values())))
        raise ConnectionLost("; ".join(f"{reason} ({address})" for address, reason in reasons.items()))

    async def _log_in(self, connection: ClientConnection, versions: ApiVersionTable, timeout_s: float) -> int:
        authenticator, metrics = self._owner.authenticator, self._owner.metrics
        versions.node = f"broker {self.node_id} at {self._address}" if self.node_id >= 0 else f"the broker at {self._address}"
        if authenticator is None:
            return 0
        renewing, begin_s = self.life.state is DialState.RENEWING, self._clock.monotonic()
        try:
            lifetime_ms = await authenticator.authenticate(connection, versions, self._address, timeout_s)
        except BaseException:
            if renewing:
                # Waiting requests fail with a lost connection; the next dial raises the cause.
                metrics.reauthentication_failed()
            raise
        now_s = self._clock.monotonic()
        if renewing:
            metrics.reauthenticated(now_s - begin_s, now_s)
        else:
            metrics.authenticated()
        return lifetime_ms

    def _explained(self, error: Exception) -> Exception:
        config, metrics, where = self._owner.config, self._owner.metrics, self._address
        if isinstance(error, TlsFailed):
            metrics.authentication_failed()
            return explained(error, where, has_certificate=has_certificate(config))
        if isinstance(error, AuthenticationFailed):
            metrics.authentication_failed()
        elif isinstance(error, ProtocolError):
            return ConnectionLost(f"{where} does not speak Kafka's protocol: {error}")
        elif isinstance(error, ConnectionLost) and not isinstance(error, RequestTimedOut):
            protocol = config[SECURITY_PROTOCOL].upper()
            hint = f"check that this listener's protocol is security.protocol={protocol}"
            if self._owner.tls is not None and not has_certificate(config):
                hint += ", and whether it requires a client certificate (ssl.keystore.location)"
            return ConnectionLost(f"{where} closed the connection: {error}; {hint}")
        return error

    def _opened(self, connection: ClientConnection, versions: ApiVersionTable) -> Node:
        connection.limit_responses(MAX_RESPONSE)
        connection_attempts.connected(self.node_id)
        connection.hold(self._owner.throttled_for_s(self.node_id))
        connection.meter = self._owner.metrics.opened(self.node_id)
        self.node = Node(self.node_id, connection, versions, self._address)
        return self.node

    def _ended(self, error: BaseException, *, opened: bool) -> None:
        self.node = None
        if opened:
            self._owner.metrics.closed()
        elif self.life.state is DialState.CLOSED:
            connection_attempts.given_up(self.node_id)
