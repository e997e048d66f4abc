"""Listeners: binding, admission, limits, and the periodic sweep over connections.

Order of calls:

1. `bind` every listener: the ports are known, but no connection is answered.
2. `serve` when the rest of the broker is ready.
3. `close_listeners` when shutdown begins, `close` at the end.

Listeners of different scopes may close at different times. A listener with `tls` puts `network.secure` between its sockets and their
connections.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.addresses import host_address, host_port, without_scope
from odradek.base.clock import Clock
from odradek.base.errors import OdradekError
from odradek.base.timing import Alarm
from odradek.network import descriptors
from odradek.network.admission import Admission
from odradek.network.connection import Connection
from odradek.network.eviction import Eviction
from odradek.network.fairness import Fairness
from odradek.network.frames import FLOOR_CAPACITY, BufferPool
from odradek.network.limits import UNLIMITED, AcceptorLimits, QuietLog
from odradek.network.unsent_bytes import UnsentBytes

if TYPE_CHECKING:
    from odradek.network.inbound import FrameHandler
    from odradek.network.secure import Handshakes, TlsServing

logger = logging.getLogger(__name__)

_LONGEST_SWEEP_S = 5.0
_FREE_PORTS = 10
"""Most ports that are tried for a listener with port 0. A port that is free on one address may be in use on the other."""


class ListenError(OdradekError):
    """Failure to bind a listener's address; the message is one line that names the listener. `errno` is 0 when the system gave none."""

    def __init__(self, listener: str, host: str, port: int, problem: OSError | None) -> None:
        self.listener = listener
        self.errno = problem.errno or 0 if problem is not None else 0
        # asyncio's own text wraps the reason in a sentence. The number of a failed name resolution (gaierror) is not an errno.
        known = not isinstance(problem, socket.gaierror) and self.errno > 0
        reason = os.strerror(self.errno) if known else problem.strerror if problem is not None and problem.strerror else str(problem)
        super().__init__(f"listener {listener}: cannot listen on {host_port(host or '*', port)}: {reason}")


class Listener:
    """Address of a listener. `name` and `scope` are those of `handlers.scopes`. An empty host is every address, port 0 any free port."""

    __slots__ = ("admitted", "closed", "connections", "host", "name", "port", "quiet", "scope", "tls")

    def __init__(self, name: str, scope: str, host: str, port: int, tls: TlsServing | None = None) -> None:
        self.name = name
        self.scope = scope
        self.host = host
        self.port = port
        self.connections = 0
        """Number of open connections."""
        self.admitted = 0
        """Number of connections admitted so far."""
        self.closed = False
        """Whether new connections are closed at once (`Acceptor.close_listeners`)."""
        self.quiet = False
        """Whether received requests are no longer served (`Acceptor.quiesce`)."""
        self.tls = tls
        """TLS of new connections, read for each; a change does not affect open connections."""


class BoundListener:
    """Listener that is bound to a port."""

    __slots__ = ("host", "listener", "name", "port", "scope", "servers")

    def __init__(self, listener: Listener, port: int, servers: list[asyncio.AbstractServer]) -> None:
        self.listener = listener
        self.name = listener.name
        self.scope = listener.scope
        self.host = listener.host
        self.port = port
        self.servers = servers


class Acceptor:
    """Listeners of one process, and their connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        handler: FrameHandler,
        limits: AcceptorLimits,
        *,
        backlog: int = 50,
        descriptor_limit: Callable[[], int] = descriptors.limit,
    ) -> None:
        """Create the acceptor. `descriptor_limit` returns how many descriptors the process may have open."""
        self.loop = loop
        self.clock = clock
        self.handler = handler
        self.limits = limits
        self.pool = BufferPool(limits.request_memory)
        self.login_pool = BufferPool(limits.login_memory, base_capacity=FLOOR_CAPACITY)
        """Receive memory of connections that have not logged in, apart from the memory of clients."""
        self.unsent: UnsentBytes[Connection] = UnsentBytes(limits.response_memory, clock, self._close_slow)
        self.fairness = Fairness(loop, clock)
        self.quiet_log = QuietLog(logger, clock)
        self._descriptor_log = QuietLog(logger, clock, burst=1)
        self.on_disconnect: Callable[[str], object] | None = None
        """Callback with the id of each connection that has ended."""
        self.on_connect: Callable[[Connection], object] | None = None
        """Callback with each connection that was admitted."""
        self.admission = Admission(clock)
        self.connections: dict[Connection, None] = {}
        """Open connections, oldest first. A set would be iterated in the order of memory addresses, which is not repeatable."""
        self.eviction = Eviction(
            self.connections, lambda: self.limits.protected, self.quiet_log, backlog=backlog, descriptor_limit=descriptor_limit
        )
        self.listeners: list[BoundListener] = []
        self.idle_closed = 0
        """Number of connections that were closed because they were idle for too long."""
        self.descriptors_refused = 0
        """Number of connections that were closed at once because their descriptors are reserved."""
        self.handshakes: Handshakes
        """TLS handshakes; set, like `ciphertext`, when the first listener with TLS is bound."""
        self.ciphertext: memoryview
        self._handshaking: dict[Connection, float] = {}
        """Monotonic seconds when the handshake of each connection began, oldest first; without connections waiting for admission."""
        self._backlog = backlog
        self._per_ip: dict[str, int] = {}
        self._index = 0
        self._sweep = Alarm(clock, self._sweep_connections)
        self._drained: asyncio.Future[None] | None = None
        self._drained_scope: str | None = None

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def bind(self, listener: Listener) -> BoundListener:
        """Bind the listener's addresses, of IPv4 and IPv6 where the system has both.

        Raises ListenError when no address can be bound, or when another process has the port on one of the addresses. With port 0, another
        port is then tried.
        """
        make = self._factory(listener)
        servers, port, problem = await self._bind_all(make, listener)
        more = 0 if listener.port else _FREE_PORTS - 1
        while problem is not None and problem.errno == errno.EADDRINUSE and more:
            servers, port, problem = await self._bind_all(make, listener)
            more -= 1
        if problem is not None:
            raise problem
        bound = BoundListener(listener, port, servers)
        self.listeners.append(bound)
        return bound

    async def _bind_all(
        self, make: Callable[[], asyncio.BaseProtocol], listener: Listener
    ) -> tuple[list[asyncio.AbstractServer], int, ListenError | None]:
        """Return the servers of the listener's addresses and their port, or a ListenError without servers."""
        hosts = {"": ["0.0.0.0", "::"], "localhost": ["127.0.0.1", "::1"]}.get(listener.host, [listener.host])
        servers: list[asyncio.AbstractServer] = []
        port = listener.port
        problem: OSError | None = None
        for host in hosts:
            try:
                server = await self.loop.create_server(make, host, port, backlog=self._backlog, start_serving=False)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    # A client that resolves the name to this address would talk to the other process.
                    for each in servers:
                        each.close()
                    return [], port, ListenError(listener.name, host if servers else listener.host or host, port, error)
                problem = problem or error
                continue
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
            if self.limits.receive_buffer > 0:
                # Set before any connection is made, because the first packets of a connection negotiate the window scale.
                for listening in server.sockets:
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer)
        return servers, port, None if servers else ListenError(listener.name, listener.host, listener.port, problem)

    def _factory(self, listener: Listener) -> Callable[[], asyncio.BaseProtocol]:
        if listener.tls is None:
            return lambda: Connection(self, listener)
        from odradek.network.secure import CIPHERTEXT, Handshakes, TlsLayer

        if not hasattr(self, "handshakes"):
            self.handshakes = Handshakes(self.loop, self.limits.handshakes_at_once)
            self.ciphertext = memoryview(bytearray(CIPHERTEXT))

        def make() -> TlsLayer:
            assert listener.tls is not None
            return TlsLayer(self, listener, listener.tls)

        return make

    async def serve(self, bound: BoundListener) -> None:
        """Start to accept and answer connections. Raises ListenError when the system refuses."""
        for server in bound.servers:
            try:
                await server.start_serving()
            except OSError as error:
                raise ListenError(bound.name, bound.host, bound.port, error) from None

    def close_listeners(self, scope: str | None = None) -> None:
        """Stop accepting connections on the listeners of `scope` (None: all listeners). Open connections stay."""
        for bound in self.listeners:
            if scope in (None, bound.scope):
                bound.listener.closed = True
                for server in bound.servers:
                    server.close()

    def remove(self, bound: BoundListener) -> None:
        """Close one listener and its connections for good. Responses that are ready are still sent."""
        bound.listener.closed = bound.listener.quiet = True
        for server in bound.servers:
            server.close()
        self.listeners.remove(bound)
        self.admission.forget_listener(bound.name)
        self.fairness.send_responses()
        for connection in [each for each in self.connections if each.listener is bound.listener]:
            connection.close()

    def quiesce(self, scope: str | None = None) -> None:
        """Stop serving new requests on the listeners of `scope` (None: all listeners). Requests in progress are still answered."""
        for bound in self.listeners:
            if scope in (None, bound.scope):
                bound.listener.quiet = True

    async def close(self, scope: str | None = None) -> None:
        """Close the listeners of `scope` (None: all listeners) and their connections. Only one call may run at a time.

        Bytes that the sockets already have are still sent when the peers receive them within a second.
        """
        self.close_listeners(scope)
        self.fairness.send_responses()
        for connection in self._connections_of(scope):
            connection.close()
        if self._connections_of(scope):
            self._drained, self._drained_scope = self.loop.create_future(), scope
            timer = self.clock.call_later(1.0, self._abort_all, scope)
            await self._drained
            timer.cancel()
        if not self.connections:
            self._sweep.cancel()

    def _connections_of(self, scope: str | None) -> list[Connection]:
        return [connection for connection in self.connections if scope in (None, connection.listener.scope)]

    def _abort_all(self, scope: str | None) -> None:
        for connection in self._connections_of(scope):
            connection.abort()

    # -- connections -----------------------------------------------------------------------------------------------------------

    def connected(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Admit a new connection, or close it."""
        peer = transport.get_extra_info("peername") or ("", 0)
        local = transport.get_extra_info("sockname") or ("", 0)
        host = connection.peer_host = _host(peer)
        address = without_scope(host)
        connection.peer_port = int(peer[1])
        self._index += 1
        connection.connection_id = f"{host_address(str(local[0]))}:{local[1]}-{host}:{peer[1]}-{self._index}"
        limits = self.limits
        descriptor = -1
        if (own := transport.get_extra_info("socket")) is not None:
            descriptor = own.fileno()
            transport.set_write_buffer_limits(high=0)
            if transport.get_extra_info("sslcontext") is None:
                connection.outbound.socket = descriptor
            if limits.send_buffer > 0:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer)
        self.connections[connection] = None
        connection.listener.connections += 1
        count = self._per_ip[address] = self._per_ip.get(address, 0) + 1
        if connection.listener.closed:  # accepted in a loop iteration that began before the listener was closed
            connection.abort()
            return
        eviction = self.eviction
        if eviction.is_kept(descriptor, connection.listener) and not eviction.make_way(connection, "nearly all file descriptors are open"):
            self.descriptors_refused += 1
            self._descriptor_log.warning(
                "refusing %s: nearly all of the %d file descriptors are open; raise the limit (ulimit -n) or set max.connections",
                connection.connection_id,
                eviction.descriptor_limit(),
            )
            connection.abort()
            return
        if len(self.connections) - eviction.ending > limits.max_connections and not eviction.make_way(connection):
            self.quiet_log.warning("refusing %s: max.connections=%d are open", connection.connection_id, limits.max_connections)
            connection.abort()
            return
        name = connection.listener.name
        if limits.max_connections_of and connection.listener.connections > limits.max_connections_of.get(name, UNLIMITED):
            own = limits.max_connections_of[name]
            self.quiet_log.warning("refusing %s: max.connections=%d of listener %s are open", connection.connection_id, own, name)
            connection.abort()
            return
        if count > limits.for_ip(address):
            self.quiet_log.warning("refusing %s: max.connections.per.ip=%d are open", connection.connection_id, limits.for_ip(address))
            connection.abort()
            return
        now = self.clock.monotonic()
        connection.idle_since = now
        connection.listener.admitted += 1
        if self.on_connect is not None:
            self.on_connect(connection)
        if self.admission.rates is not None:
            self.admission.connected(connection, descriptor)
        if not self._sweep.is_set:
            self._sweep.set(self._sweep_interval())

    def make_room_for_login(self, connection: Connection) -> None:
        """Close the connection that holds the most receive memory without having logged in, if that is more than `connection` holds."""
        pool = self.login_pool
        largest = max((each for each in self.connections if each.pool is pool), key=lambda each: each.bytes_held, default=connection)
        if largest.bytes_held > connection.bytes_held and not largest.closing:
            self.quiet_log.warning(
                "closing %s: it has sent %d bytes of a request without authentication, and other connections need the memory",
                largest.connection_id,
                largest.bytes_held,
            )
            largest.abort()

    def disconnected(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        connection.listener.connections -= 1
        self.eviction.disconnected(connection)
        self.admission.disconnected(connection)
        if self.on_disconnect is not None:
            self.on_disconnect(connection.connection_id)
        address = without_scope(connection.peer_host)
        left = self._per_ip.get(address, 0) - 1
        if left > 0:
            self._per_ip[address] = left
        else:
            self._per_ip.pop(address, None)
        if self._drained is not None and not self._drained.done() and not self._connections_of(self._drained_scope):
            self._drained.set_result(None)

    def begin_handshake(self, connection: Connection) -> None:
        """Start the deadline `handshake_s` of the connection's TLS handshake. Without effect when it has started."""
        self._handshaking.setdefault(connection, self.clock.monotonic())

    def end_handshake(self, connection: Connection) -> None:
        """End the deadline of a handshake that is complete, or whose connection is gone."""
        self._handshaking.pop(connection, None)

    @property
    def handshaking(self) -> int:
        """Number of admitted connections whose handshake is not complete."""
        return len(self._handshaking)

    def _close_slow(self, connection: Connection, size: int) -> None:
        self.quiet_log.warning(
            "closing %s: it does not read its responses: %d bytes are pending, all connections may have %d",
            connection.connection_id,
            size,
            self.unsent.most,
        )
        connection.abort()

    # -- sweep -----------------------------------------------------------------------------------------------------------------

    def _sweep_interval(self) -> float:
        limits = self.limits
        shortest = min(limits.idle_s, limits.frame_grace_s, limits.handshake_s if self._handshaking else limits.idle_s)
        return max(0.02, min(shortest / 4, _LONGEST_SWEEP_S))

    def _sweep_connections(self) -> None:
        """Close connections that are idle or whose frame arrives too slowly. The deadlines are only as exact as the sweep interval."""
        now = self.clock.monotonic()
        limits = self.limits
        for connection, since in list(self._handshaking.items()):
            if now - since < limits.handshake_s:
                break
            self.quiet_log.warning("closing %s: no TLS handshake within %.0f s", connection.connection_id, now - since)
            connection.abort()
        for connection in list(self.connections):
            if connection.active or connection.delayed:
                # The client of a delayed connection waits for this broker: it is not idle.
                connection.active = False
                connection.idle_since = now
            elif now - connection.idle_since >= limits.idle_s and not connection.parked:
                self.idle_closed += 1
                connection.abort()
                continue
            else:
                connection.shrink()
            pending = connection.bytes_pending
            if connection.busy or connection.starved or not pending or connection.frames != connection.partial_frames:
                connection.partial_frames = connection.frames if pending and not connection.busy else -1
                connection.partial_since = now
            elif now - connection.partial_since > limits.frame_grace_s + pending / limits.frame_min_rate:
                self.quiet_log.warning(
                    "closing %s: only %d bytes of a request within %.0f s",
                    connection.connection_id,
                    pending,
                    now - connection.partial_since,
                )
                connection.abort()
        self.admission.sweep()
        self.eviction.free_descriptors()
        self.pool.release_spare()
        self.login_pool.release_spare()
        if self.connections or self.pool.retained or self.login_pool.retained:
            self._sweep.set(self._sweep_interval())


def _host(peer: tuple[object, ...]) -> str:
    """Return the address of a socket name as Java writes it: with the scope of a link-local address as a number."""
    host = str(peer[0])
    if len(peer) > 3 and "%" in host:
        host = f"{without_scope(host)}%{peer[3]}"
    return host_address(host)
