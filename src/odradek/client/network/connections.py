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
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from odradek import __version__
from odradek.base.addresses import host_port
from odradek.base.clock import Clock
from odradek.base.errors import KafkaError, ProtocolError
from odradek.base.timing import Alarm, Backoff
from odradek.client.core.node_states import NodeStates
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
from odradek.network.transport import ClientConnection, ConnectionLost, RequestTimedOut, TlsFailed, dial
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.negotiation import ApiVersionTable, Negotiation

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

    __slots__ = ("address", "connection", "idle", "node_id", "renewal", "versions")

    idle: Alarm
    """Alarm after which the connection may be idle."""
    renewal: Alarm
    """Alarm of the next reauthentication."""

    def __init__(self, node_id: int, connection: ClientConnection, versions: ApiVersionTable, address: str = "") -> None:
        self.node_id = node_id
        self.connection = connection
        self.versions = versions
        self.address = address
        versions.node = describe(node_id, address)


def describe(node_id: int, address: str) -> str:
    """Return the name of a node for messages."""
    return f"broker {node_id} at {address}" if node_id >= 0 else f"the broker at {address}"


class Connections:
    """Connections of one client; live in one event loop.

    Creating the object raises ConfigError when keys or certificates cannot be used.
    """

    def __init__(self, config: ClientConfig, clock: Clock, rng: random.Random) -> None:
        self._config = config
        self._clock = clock
        self._rng = rng
        self._client_id = config[CLIENT_ID]
        self._request_timeout_s = config[REQUEST_TIMEOUT_MS] / 1000
        self._max_idle_s = config[CONNECTIONS_MAX_IDLE_MS] / 1000
        self._tls = tls_context(config)
        self._authenticator = Authenticator.of(config, clock, rng)
        setup_ms = config[SOCKET_CONNECTION_SETUP_TIMEOUT_MS]
        self.states = NodeStates(
            Backoff(config[RECONNECT_BACKOFF_MS], config[RECONNECT_BACKOFF_MAX_MS], rng),
            Backoff(setup_ms, max(setup_ms, config[SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS]), rng),
        )
        self.metrics = ClientMetrics(config)
        self._nodes: dict[tuple[int, Channel], Node] = {}
        self._dialling: dict[tuple[int, Channel], asyncio.Task[Node]] = {}
        self._renewals: set[asyncio.Task[None]] = set()
        self._closed = False

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return int(self._clock.monotonic() * 1000)

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._dialling.values(), *self._renewals]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in list(self._nodes.values()):
            node.connection.close()

    # -- look-up --------------------------------------------------------------------------------------------------------------------

    def get(self, node_id: int, channel: Channel) -> Node | None:
        """Return the connection to the node if it is open, else None."""
        node = self._nodes.get((node_id, channel))
        return node if node is not None and not node.connection.closed else None

    async def node(self, node_id: int, channel: Channel, servers: Servers) -> Node:
        """Return an open connection to the node; dial the node if needed. Calls at the same time share one connection.

        Raises ConnectionLost or NoBrokersAvailable when dialling fails, AuthenticationFailed when it would fail again, ClientClosed after
        `close`.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        key = (node_id, channel)
        node = self.get(node_id, channel)
        if node is not None:
            self._use(node)
            return node
        task = self._dialling.get(key)
        if task is None:
            task = self._dialling[key] = asyncio.create_task(self._dial(node_id, channel, servers))
            task.add_done_callback(lambda done: self._dialled(key, done))
        return await asyncio.shield(task)

    def least_loaded(self, *, every_channel: bool = False) -> Node | None:
        """Return the open control connection with the fewest requests in flight; None without one.

        Nodes that throttle the client come last. With `every_channel`, connections of all channels count.
        """
        now = self.now_ms()
        found = [node for (_, channel), node in self._nodes.items() if every_channel or channel == "control"]
        candidates = [node for node in found if not node.connection.closed]
        if not candidates:
            return None
        node = min(candidates, key=lambda each: (self.states.throttled_for_ms(each.node_id, now), each.connection.in_flight))
        self._use(node)
        return node

    def drop(self, node_ids: list[int]) -> None:
        """Close all connections to these nodes, and forget their failures."""
        for (node_id, _), node in list(self._nodes.items()):
            if node_id in node_ids:
                node.connection.close()
        for node_id in node_ids:
            self.states.connected(node_id)

    def throttle(self, node_id: int, throttle_time_ms: int) -> None:
        """Send no request to the node for `throttle_time_ms`, on any of its connections (KIP-219)."""
        self.states.throttle(node_id, self.now_ms(), throttle_time_ms)
        self.metrics.throttled(node_id, throttle_time_ms, self._clock.monotonic())
        for (each, _), node in self._nodes.items():
            if each == node_id:
                node.connection.hold(throttle_time_ms / 1000)

    def without_answer(self, node: Node, error: ConnectionLost) -> ConnectionLost:
        """Return the error of a request without a response, with a hint if the first request after ApiVersions failed.

        A broker that requires SASL answers ApiVersions and closes the connection at the next request.
        """
        if self._authenticator is not None or node.connection.answers > 2:
            return error
        protocol = self._config[SECURITY_PROTOCOL].upper()
        return ConnectionLost(
            f"{node.address}: {error} at the first request; check that this listener's protocol is security.protocol={protocol}"
        )

    def _use(self, node: Node) -> None:
        """Count the node as used: it is not closed as idle before its caller has sent something."""
        node.connection.active_s = self._clock.monotonic()

    # -- dialling -------------------------------------------------------------------------------------------------------------------

    def _dialled(self, key: tuple[int, Channel], task: asyncio.Task[Node]) -> None:
        del self._dialling[key]
        if task.cancelled():
            connection_attempts.given_up(key[0])
        else:
            task.exception()

    async def _dial(self, node_id: int, channel: Channel, servers: Servers) -> Node:
        wait_ms = self.states.connect_in_ms(node_id, self.now_ms())
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        reached = False
        reasons: list[str] = []
        try:
            for host, port in await servers():
                where = host_port(host, port)
                connection_attempts.dialling(node_id, where)
                try:
                    connection = await self._connect(node_id, host, port)
                    reached = True
                    node = await self._make_ready(node_id, connection, host, port)
                except ConnectionLost as error:
                    connection_attempts.failed(node_id, where, str(error))
                    reasons.append(str(error))
                else:
                    return self._ready(node, channel)
            raise NoBrokersAvailable(reasons) if node_id == BOOTSTRAP else ConnectionLost(reasons[-1])
        except (ConnectionLost, KafkaError):
            self.states.failed(node_id, self.now_ms(), reached=reached)
            raise

    async def _connect(self, node_id: int, host: str, port: int) -> ClientConnection:
        timeout_s = self.states.setup_timeout_ms(node_id) / 1000
        reasons: dict[str, str] = {}
        for address in await addresses_of(host, port):
            try:
                return await dial(
                    address,
                    port,
                    name=host,
                    clock=self._clock,
                    client_id=self._client_id,
                    timeout_s=timeout_s,
                    max_in_flight=MAX_IN_FLIGHT,
                    max_queued=MAX_QUEUED,
                    max_response=_MAX_FIRST_RESPONSE,
                    tls=self._tls,
                    send_buffer=self._config[SEND_BUFFER_BYTES],
                    receive_buffer=self._config[RECEIVE_BUFFER_BYTES],
                )
            except TlsFailed as error:
                raise self._explained(error, host_port(host, port)) from None
            except ConnectionLost as error:
                reasons[address] = str(error)
        if len(set(reasons.values())) == 1:
            raise ConnectionLost(next(iter(reasons.values())))
        raise ConnectionLost("; ".join(f"{reason} ({address})" for address, reason in reasons.items()))

    async def _make_ready(self, node_id: int, connection: ClientConnection, host: str, port: int) -> Node:
        where = host_port(host, port)
        try:
            node = Node(node_id, connection, await self._negotiate(connection), where)
            node.idle = Alarm(self._clock, lambda: self._close_idle(node))
            node.renewal = Alarm(self._clock, lambda: self._start_renewal(node))
            if self._authenticator is not None:
                await self._authenticate(node)
        except BaseException as error:
            connection.close()
            raise self._explained(error, where) from None
        connection.limit_responses(MAX_RESPONSE)
        return node

    def _explained(self, error: BaseException, where: str) -> BaseException:
        if isinstance(error, TlsFailed):
            self.metrics.authentication_failed()
            return explained(error, where, has_certificate=has_certificate(self._config))
        if isinstance(error, AuthenticationFailed):
            self.metrics.authentication_failed()
        elif isinstance(error, ProtocolError):
            return ConnectionLost(f"{where} does not speak Kafka's protocol: {error}")
        elif isinstance(error, ConnectionLost) and not isinstance(error, RequestTimedOut):
            protocol = self._config[SECURITY_PROTOCOL].upper()
            hint = f"check that this listener's protocol is security.protocol={protocol}"
            if self._tls is not None and not has_certificate(self._config):
                hint += ", and whether it requires a client certificate (ssl.keystore.location)"
            return ConnectionLost(f"{where} closed the connection: {error}; {hint}")
        return error

    async def _negotiate(self, connection: ClientConnection) -> ApiVersionTable:
        negotiation = Negotiation(__version__)
        while True:
            question = [negotiation.question()]
            body = await connection.send(ApiKey.API_VERSIONS, negotiation.version, question, timeout_s=self._request_timeout_s)
            table = negotiation.answered(body)
            if table is not None:
                return table

    def _ready(self, node: Node, channel: Channel) -> Node:
        connection = node.connection
        self.states.connected(node.node_id)
        connection_attempts.connected(node.node_id)
        throttled_ms = self.states.throttled_for_ms(node.node_id, self.now_ms())
        if throttled_ms:
            connection.hold(throttled_ms / 1000)
        connection.meter = self.metrics.opened(node.node_id)
        self._nodes[(node.node_id, channel)] = node
        connection.on_close(lambda _: self._gone(node, channel))
        self._use(node)
        if self._max_idle_s >= 0:
            node.idle.set(self._max_idle_s)
        return node

    def _gone(self, node: Node, channel: Channel) -> None:
        self.metrics.closed()
        if self._nodes.get((node.node_id, channel)) is node:
            del self._nodes[(node.node_id, channel)]
        node.idle.close()
        node.renewal.close()

    def _close_idle(self, node: Node) -> None:
        connection = node.connection
        rest_s = connection.active_s + self._max_idle_s - self._clock.monotonic()
        if connection.in_flight:
            rest_s = self._max_idle_s
        if rest_s <= 0:
            connection.close()
        else:
            node.idle.set(rest_s)

    # -- sessions -------------------------------------------------------------------------------------------------------------------

    async def _authenticate(self, node: Node) -> None:
        assert self._authenticator is not None
        lifetime_ms = await self._authenticator.authenticate(node.connection, node.versions, node.address, self._request_timeout_s)
        self.metrics.authenticated()
        self._renew_later(node, lifetime_ms)

    def _renew_later(self, node: Node, lifetime_ms: int) -> None:
        if lifetime_ms > 0:
            # As Java's SaslClientAuthenticator: at 85 to 95 % of the session, so that clients do not reauthenticate all at once.
            pause_s = lifetime_ms * self._rng.uniform(0.85, 0.95) / 1000
            node.renewal.set(pause_s)

    def _start_renewal(self, node: Node) -> None:
        task = asyncio.get_running_loop().create_task(self._renew(node))
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)

    async def _renew(self, node: Node) -> None:
        """Reauthenticate the open connection. Other requests wait, because the broker accepts none during the exchange."""
        assert self._authenticator is not None
        begin_s = self._clock.monotonic()
        # Reauthentication does not count as use: an idle connection is still closed.
        used_s = begin_s if node.connection.in_flight else node.connection.active_s
        node.connection.pause()
        try:
            lifetime_ms = await self._authenticator.authenticate(node.connection, node.versions, node.address, self._request_timeout_s)
        except Exception:
            # Not only OdradekError and ProtocolError: a SASL mechanism calls libraries, which raise other errors. Waiting requests fail
            # with a lost connection; the next dial raises the cause.
            self.metrics.reauthentication_failed()
            node.connection.close()
            return
        self.metrics.reauthenticated(self._clock.monotonic() - begin_s, self._clock.monotonic())
        node.connection.active_s = used_s
        node.connection.resume()
        self._renew_later(node, lifetime_ms)
