"""Network in memory: connections with latency, flow control, cuts and resets, driven by one random source.

Addresses are (host, port) pairs of any text and number. A connection is two one-way streams of bytes. Written bytes arrive in order, in
chunks, after a latency drawn from the network's random source. `cut` stops one direction between two hosts until `heal`; neither host gets
an error (as with a broken switch). `reset_connections` breaks connections at once. `slow_down` sets the latency of one direction. Protocols
are called in the context (host, process) that dialled or listened.

While a process is paused its kernel works: connections are accepted until the backlog is full, and bytes arrive until the socket's buffer
is full. The process finds them when it resumes, including connections that the peer has closed since.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

from odradek.testing.simulation.process import ProcessHandle, process_of

if TYPE_CHECKING:
    from odradek.testing.simulation.loop import SimulatedLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Buffer = bytes | bytearray | memoryview
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_LOCAL = "127.0.0.1"
_current_host: contextvars.ContextVar[str] = contextvars.ContextVar("odradek_virtual_host", default=_LOCAL)


@contextmanager
def on_host(name: str) -> Generator[None, None, None]:
    """Make connections dialled inside this block, and servers bound to no host, belong to host `name`."""
    token = _current_host.set(name)
    try:
        yield
    finally:
        _current_host.reset(token)


class VirtualNetwork:
    """Network of all hosts, with the connections between them."""

    def __init__(self, seed: int = 0, latency_s: tuple[float, float] = (0.000_05, 0.000_5), window: int = 256 * 1024) -> None:
        """Make a network. `latency_s` is (least, most) seconds of one delivery. `window` is the maximum number of bytes of one delivery,
        and the size in bytes of a socket's buffer while a process is paused.
        """
        self.random = random.Random(seed)
        self.latency_s = latency_s
        self.window = window
        self._servers: dict[tuple[str, int], VirtualServer] = {}
        self._connections: dict[VirtualTransport, None] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], tuple[float, float]] = {}
        self.names: dict[str, list[str]] = {}
        """Name -> addresses, in a resolver's order. A name without an entry is its own address."""
        self.on_delivery: Callable[[tuple[str, int], tuple[str, int], bytes], object] | None = None
        """Called as (from, to, bytes) before bytes are handed to the receiving protocol."""
        self.on_end: Callable[[tuple[str, int], tuple[str, int]], object] | None = None
        """Called as (local, remote) when one end of a connection is gone."""
        self.nowhere = contextvars.Context()
        """Context of the network's own callbacks, without a host and a process."""
        self._next_port = 40_000
        self._loop: SimulatedLoop | None = None

    def attach(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    @property
    def loop(self) -> SimulatedLoop:
        assert self._loop is not None, "the network is not attached to a loop"
        return self._loop

    def port(self) -> int:
        """Return a port that has never been returned before."""
        self._next_port += 1
        return self._next_port

    def latency(self, source: str, target: str) -> float:
        """Return the seconds that the next bytes from `source` to `target` take."""
        return self.random.uniform(*self._slow.get((source, target), self.latency_s))

    def slow_down(self, source: str, target: str, latency_s: tuple[float, float] | None) -> None:
        """Set the latency of one direction (least, most, in seconds). None restores the network's latency."""
        if latency_s is None:
            self._slow.pop((source, target), None)
        else:
            self._slow[(source, target)] = latency_s

    def restore_latencies(self) -> None:
        """Remove every latency that was set by `slow_down`."""
        self._slow.clear()

    def listen(
        self, factory: ProtocolFactory, host: str | None, port: int | None, *, serving: bool = True, backlog: int = 100
    ) -> VirtualServer:
        """Bind a server. Port 0 picks a port. Raises OSError when the address is in use.

        Until the server is `serving`, connections are refused. `backlog` is the number of connections that wait while the server's process
        is paused; further connections get no answer.
        """
        address = (_resolve(host) if host else _current_host.get(), port or self.port())
        if address in self._servers:
            # The addresses of IPv6 are those of IPv4 here, so a listener on both families goes on with IPv4, as on a host without IPv6.
            number = errno.EADDRNOTAVAIL if host in ("::", "::1") else errno.EADDRINUSE
            raise OSError(number, f"address already in use: {address}")
        server = VirtualServer(self, factory, address, serving, backlog)
        self._servers[address] = server
        return server

    def forget(self, server: VirtualServer) -> None:
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        """Dial. Raises ConnectionRefusedError when no server listens, and TimeoutError (after 30 s) across a cut or when the backlog is
        full.
        """
        source, target = _current_host.get(), (_resolve(host), port)
        await asyncio.sleep(self.latency(source, target[0]) + self.latency(target[0], source))
        if self.is_cut(source, target[0]) or self.is_cut(target[0], source):
            await asyncio.sleep(30)
            raise TimeoutError(f"no response from {target}")
        server = self._servers.get(target)
        if server is None or not server.is_serving():
            raise ConnectionRefusedError(111, f"connection refused: no listener at {target}")
        if not server.has_room():
            await asyncio.sleep(30)
            raise TimeoutError(f"no response from {target}")
        near_address = (source, self.port())
        near_protocol = factory()
        near = VirtualTransport(self, near_protocol, near_address, target, contextvars.copy_context())
        far = VirtualTransport(self, None, target, near_address, server.context)
        near.peer, far.peer = far, near
        self._connections[near] = self._connections[far] = None
        server.accept(far)
        near_protocol.connection_made(near)
        return near, near_protocol

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Stop bytes from `source` to `target`. They are kept, and arrive after `heal`."""
        self._cuts.add((source, target))

    def heal(self, pairs: Iterable[tuple[str, str]] | None = None) -> None:
        """Remove the named cuts, or all cuts. Bytes that were kept arrive."""
        self._cuts -= set(self._cuts if pairs is None else pairs)
        for connection in list(self._connections):
            connection.pump()

    def reset_connections(self, host: str) -> None:
        """Break every connection from or to the host, on both ends. Bytes under way are lost."""
        for connection in list(self._connections):
            if host in (connection.local[0], connection.remote[0]):
                connection.break_off(ConnectionResetError(104, "connection reset by peer"))

    def crash_host(self, host: str) -> None:
        """Remove the host from the network: its servers unbind, its connections break."""
        for server in list(self._servers.values()):
            if server.address[0] == host:
                server.close()
        self.reset_connections(host)

    def leave_host(self, host: str) -> None:
        """End the host's program in order: its servers unbind, and its connections close after their written bytes have arrived."""
        for server in list(self._servers.values()):
            if server.address[0] == host:
                server.close()
        for connection in list(self._connections):
            if connection.local[0] == host:
                connection.close()

    def drop(self, connection: VirtualTransport) -> None:
        self._connections.pop(connection, None)
        if self.on_end is not None:
            self.on_end(connection.local, connection.remote)


def _resolve(host: str) -> str:
    return _LOCAL if host in ("localhost", "", "::1", "0.0.0.0", "::") else host


class _ListeningSocket:
    """Socket that only knows its address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class VirtualServer(asyncio.AbstractServer):
    """Bound address that gives each connection a new protocol."""

    def __init__(self, network: VirtualNetwork, factory: ProtocolFactory, address: tuple[str, int], serving: bool, backlog: int) -> None:
        self._network = network
        self.factory = factory
        self.address = address
        self.connections: dict[VirtualTransport, None] = {}
        """Open connections, in the order in which they were accepted."""
        self.context = contextvars.copy_context()
        self._process = process_of(self.context)
        self._open = True
        self._serving = serving
        self._backlog = backlog
        self._waiting = 0

    @property
    def sockets(self) -> tuple[_ListeningSocket, ...]:
        return (_ListeningSocket(self.address),) if self._open else ()

    def close(self) -> None:
        self._open = False
        self._network.forget(self)

    def close_clients(self) -> None:
        for connection in list(self.connections):
            connection.close()

    def abort_clients(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    def is_serving(self) -> bool:
        return self._open and self._serving

    def has_room(self) -> bool:
        """Return whether the backlog has space for a connection."""
        return self._waiting < self._backlog

    def accept(self, connection: VirtualTransport) -> None:
        """Give the connection a new protocol, now or when the server's process resumes."""
        self.connections[connection] = None
        connection.belong_to(self)
        if self._process is None or self._process.running:
            connection.begin(self.factory)
            return
        self._waiting += 1
        # As in an asyncio server, one iteration of the loop accepts the connection and later iterations serve it.
        connection.on_event(lambda: self._network.loop.call_soon(self._take, connection))

    def _take(self, connection: VirtualTransport) -> None:
        self._waiting -= 1
        connection.begin(self.factory)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        self._serving = True

    async def serve_forever(self) -> None:
        await self.get_loop().create_future()

    async def wait_closed(self) -> None:
        return None


class VirtualTransport(asyncio.Transport):
    """End of a connection. Written bytes are delivered to the other end's protocol, in order, after a latency."""

    peer: VirtualTransport
    _protocol: asyncio.BaseProtocol

    def __init__(
        self,
        network: VirtualNetwork,
        protocol: asyncio.BaseProtocol | None,
        local: tuple[str, int],
        remote: tuple[str, int],
        context: contextvars.Context,
    ) -> None:
        """Make one end. With `protocol` None, `begin` sets the protocol."""
        super().__init__({"peername": remote, "sockname": local, "socket": None})
        self._context = context
        self._process = process_of(context)
        self._network = network
        self._begun = protocol is not None
        if protocol is not None:
            self._protocol = protocol
        self.local, self.remote = local, remote
        self._outgoing = bytearray()
        self._received = bytearray()
        """Bytes that have arrived and wait, because the process is paused or because the protocol paused reading in the middle of them."""
        self._events: list[Callable[[], object]] = []
        """Events since the connection was made, in order, while there is no protocol yet."""
        self._high, self._low = 64 * 1024, 16 * 1024
        self._delivery: asyncio.TimerHandle | None = None
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self._cannot_send = False
        self._end_sent = False
        self._end_waits = False
        """Whether the end of the stream has arrived behind waiting bytes, or while the protocol does not read."""
        self._server: VirtualServer | None = None

    def belong_to(self, server: VirtualServer) -> None:
        """Set the server that lists this connection while it is open."""
        self._server = server

    def begin(self, factory: ProtocolFactory) -> None:
        """Accept the connection in its process: make the protocol, and call it for the connection and for the events since."""
        if self._lost:
            return
        context = self._context.copy()
        self._protocol = protocol = context.run(factory)
        self._begun = True
        context.run(protocol.connection_made, self)
        events, self._events = self._events, []
        for event in events:
            self._enter(event)

    def on_event(self, event: Callable[[], object]) -> None:
        """Call `event` in the owner's context: now, or when its process resumes. Do nothing when the process is dead."""
        process = self._process
        if process is None or process.running:
            self._context.copy().run(event)
        elif process.alive:
            handle = ProcessHandle(event, (), self._network.loop, self._context.copy())
            handle.process = process
            process.hold_event(handle)

    def _enter(self, event: Callable[[], object]) -> None:
        """Call `on_event`, or keep the event until there is a protocol."""
        if self._begun:
            self.on_event(event)
        else:
            self._events.append(event)

    @property
    def _is_paused(self) -> bool:
        """True if arriving bytes must wait in the socket."""
        return not self._begun or (self._process is not None and not self._process.running)

    def _room(self) -> int:
        """Return the number of bytes that may arrive now."""
        return self._network.window - len(self._received) if self._reading else 0

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._received or self._end_waits:
            self._network.loop.call_soon(self._read_received, context=self._context.copy())
        self.peer.pump()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def write(self, data: Buffer) -> None:
        if self._closing or self._cannot_send:
            return
        self._outgoing += data
        if len(self._outgoing) > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        self.pump()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Stop reading and writing. Bytes that were written still arrive."""
        if not self._closing:
            self._closing = True
            self.pump()

    def abort(self) -> None:
        """Close at once. Bytes that have not arrived are lost; the other end reads bytes that have arrived, then gets the reset."""
        self.break_off(None)

    def break_off(self, error: Exception | None) -> None:
        """End the connection on both ends at once. Bytes under way are lost. `error` None: this end closed the connection."""
        self._outgoing.clear()
        self.peer._outgoing.clear()
        if error is None:
            self._lose(None)
        else:
            self._be_reset(error)
        self.peer._be_reset(ConnectionResetError(104, "connection reset by peer"))

    def _be_reset(self, error: Exception) -> None:
        """End this end with `error`, after the protocol has read the bytes that have arrived."""
        self._stop_sending()
        alive = self._process is None or self._process.alive
        if alive and (self._received or not self._begun):
            self._enter(lambda: self._lose(error))
        else:
            self._lose(error)

    def _stop_sending(self) -> None:
        self._cannot_send = True
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None

    def pump(self) -> None:
        """Schedule the next delivery, when there is something to deliver and the direction is free."""
        if self._delivery is not None or self._cannot_send:
            return
        if not self._outgoing and not (self._closing and not self._end_sent):
            return
        if self._network.is_cut(self.local[0], self.remote[0]) or not self.peer._room():
            return
        latency = self._network.latency(self.local[0], self.remote[0])
        self._delivery = self._network.loop.call_later(latency, self._deliver, context=self._network.nowhere)

    def _deliver(self) -> None:
        self._delivery = None
        peer = self.peer
        if self._cannot_send or peer._lost or self._network.is_cut(self.local[0], self.remote[0]):
            return
        room = peer._room()
        if not room:
            return
        if self._outgoing:
            size = min(len(self._outgoing), room)
            piece = bytes(memoryview(self._outgoing)[:size])
            del self._outgoing[:size]
            if not peer._closing:
                if self._network.on_delivery is not None:
                    self._network.on_delivery(self.local, self.remote, piece)
                peer._arrive(piece)
            if self._writing_paused and len(self._outgoing) <= self._low:
                self._writing_paused = False
                self._enter(self._protocol.resume_writing)
        if self._closing and not self._outgoing:
            self._end_sent = True
            self._lose(None)
            peer._enter(peer._end_of_stream)
        else:
            self.pump()

    def _arrive(self, piece: bytes) -> None:
        if not self._is_paused and not self._received:
            self._context.copy().run(self._receive, piece)
            return
        self._received += piece
        if len(self._received) == len(piece):
            self._enter(self._read_received)

    def _read_received(self) -> None:
        if not self._reading:
            return
        piece, self._received = bytes(self._received), bytearray()
        if piece and not self._lost and not self._closing:
            self._receive(piece)
            self.peer.pump()
        if self._end_waits:
            self._end_of_stream()

    def _receive(self, piece: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, self._protocol).data_received(piece)
            return
        view = memoryview(piece)
        while view and not self._lost:
            if not self._reading:
                # The rest stays in the socket until the protocol resumes reading.
                self._received += view
                return
            buffer = memoryview(self._protocol.get_buffer(len(view)))
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            buffer.release()
            self._protocol.buffer_updated(taken)
            view = view[taken:]

    def _end_of_stream(self) -> None:
        if self._lost:
            return
        self._end_waits = bool(self._received) or not self._reading
        if self._end_waits and not self._closing:
            return
        keep_open = cast(asyncio.Protocol, self._protocol).eof_received() if not self._closing else None
        if not keep_open:
            self._closing = True
            self._outgoing.clear()
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._stop_sending()
        self._received.clear()
        self._network.drop(self)
        if self._server is not None:
            self._server.connections.pop(self, None)
        if self._begun:
            self._network.loop.call_soon(self._protocol.connection_lost, error, context=self._context.copy())
