"""A network in memory: connections with latency, flow control, cuts and resets, driven by one random source.

Addresses are (host, port) pairs of any text and number. A connection is two one-way streams of bytes; bytes written arrive
in order, in pieces, after a latency drawn from the network's random source. `cut` stops a direction between two hosts
without telling either (what a broken switch does) until `heal`; `reset_connections` breaks connections at once; `slow_down` gives
a direction a latency of its own. Protocols are called in the context (host, process) that dialled or listened.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast

from odradek.testing.process import process_of

if TYPE_CHECKING:
    from odradek.testing.loop import SimulatedLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Buffer = bytes | bytearray | memoryview
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_LOCAL = "127.0.0.1"
_current_host: contextvars.ContextVar[str] = contextvars.ContextVar("odradek_virtual_host", default=_LOCAL)


@contextmanager
def on_host(name: str) -> Generator[None, None, None]:
    """Connections dialled (and servers bound to no host) inside of this block belong to host `name`."""
    token = _current_host.set(name)
    try:
        yield
    finally:
        _current_host.reset(token)


class VirtualNetwork:
    """All hosts and the wires between them."""

    def __init__(self, seed: int = 0, latency_s: tuple[float, float] = (0.000_05, 0.000_5), window: int = 256 * 1024) -> None:
        self.random = random.Random(seed)
        self.latency_s = latency_s
        self.window = window
        self._servers: dict[tuple[str, int], VirtualServer] = {}
        self._connections: list[VirtualTransport] = []
        self._cuts: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], tuple[float, float]] = {}
        self.on_delivery: Callable[[tuple[str, int], tuple[str, int], bytes], object] | None = None
        """Called as (from, to, bytes) before bytes are handed to the receiving protocol."""
        self._next_port = 40_000
        self._loop: SimulatedLoop | None = None

    def attach(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    @property
    def loop(self) -> SimulatedLoop:
        assert self._loop is not None, "the network is not attached to a loop"
        return self._loop

    def port(self) -> int:
        """A port nobody has had before."""
        self._next_port += 1
        return self._next_port

    def latency(self, source: str, target: str) -> float:
        """Seconds that the next bytes from `source` to `target` take."""
        return self.random.uniform(*self._slow.get((source, target), self.latency_s))

    def slow_down(self, source: str, target: str, latency_s: tuple[float, float] | None) -> None:
        """Gives the direction a latency of its own; None takes it back."""
        if latency_s is None:
            self._slow.pop((source, target), None)
        else:
            self._slow[(source, target)] = latency_s

    def listen(self, factory: ProtocolFactory, host: str | None, port: int | None, *, serving: bool = True) -> VirtualServer:
        """Binds a server; OSError when the address is taken. Port 0 picks one. Until it is `serving`, connections are refused."""
        address = (_resolve(host) if host else _current_host.get(), port or self.port())
        if address in self._servers:
            raise OSError(98, f"address already in use: {address}")
        server = VirtualServer(self, factory, address, serving)
        self._servers[address] = server
        return server

    def forget(self, server: VirtualServer) -> None:
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        """Dials; ConnectionRefusedError where nobody listens, TimeoutError across a cut."""
        source, target = _current_host.get(), (_resolve(host), port)
        await asyncio.sleep(self.latency(source, target[0]) + self.latency(target[0], source))
        if self.is_cut(source, target[0]) or self.is_cut(target[0], source):
            await asyncio.sleep(30)
            raise TimeoutError(f"no answer from {target}")
        server = self._servers.get(target)
        if server is None or not server.is_serving():
            raise ConnectionRefusedError(111, f"nobody listens on {target}")
        near_address = (source, self.port())
        near_protocol, far_protocol = factory(), server.context.copy().run(server.factory)
        near = VirtualTransport(self, near_protocol, near_address, target, contextvars.copy_context())
        far = VirtualTransport(self, far_protocol, target, near_address, server.context)
        near.peer, far.peer = far, near
        server.connections.append(far)
        self._connections += (near, far)
        far.enter(far_protocol.connection_made, far)
        near_protocol.connection_made(near)
        return near, near_protocol

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Bytes from `source` to `target` stop arriving (they are kept, and arrive after `heal`)."""
        self._cuts.add((source, target))

    def heal(self, pairs: Iterable[tuple[str, str]] | None = None) -> None:
        """Takes back the named cuts, or all of them; what was held back arrives."""
        self._cuts -= set(self._cuts if pairs is None else pairs)
        for connection in list(self._connections):
            connection.pump()

    def reset_connections(self, host: str) -> None:
        """Every connection from or to the host breaks now, on both ends, losing what was under way."""
        for connection in list(self._connections):
            if host in (connection.local[0], connection.remote[0]):
                connection.break_off(ConnectionResetError(104, "connection reset by peer"))

    def crash_host(self, host: str) -> None:
        """The host disappears: its servers unbind, its connections break."""
        for server in list(self._servers.values()):
            if server.address[0] == host:
                server.close()
        self.reset_connections(host)

    def drop(self, connection: VirtualTransport) -> None:
        if connection in self._connections:
            self._connections.remove(connection)


def _resolve(host: str) -> str:
    return _LOCAL if host in ("localhost", "", "::1", "0.0.0.0", "::") else host


class _ListeningSocket:
    """Just enough of a socket to ask for its address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class VirtualServer(asyncio.AbstractServer):
    """A bound address that hands each connection to a new protocol."""

    def __init__(self, network: VirtualNetwork, factory: ProtocolFactory, address: tuple[str, int], serving: bool) -> None:
        self._network = network
        self.factory = factory
        self.address = address
        self.connections: list[VirtualTransport] = []
        self.context = contextvars.copy_context()
        self._open = True
        self._serving = serving

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

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        self._serving = True

    async def serve_forever(self) -> None:
        await self.get_loop().create_future()

    async def wait_closed(self) -> None:
        return None


class VirtualTransport(asyncio.Transport):
    """One end of a connection. Writes are delivered to the other end's protocol, in order, after a latency."""

    peer: VirtualTransport

    def __init__(
        self,
        network: VirtualNetwork,
        protocol: asyncio.BaseProtocol,
        local: tuple[str, int],
        remote: tuple[str, int],
        context: contextvars.Context,
    ) -> None:
        super().__init__({"peername": remote, "sockname": local, "socket": None})
        self._context = context
        self._network = network
        self._protocol = protocol
        self.local, self.remote = local, remote
        self._outgoing = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._delivery: asyncio.TimerHandle | None = None
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self._end_sent = False

    def enter(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Calls into the owner of this end, in its own context; not at all when its process is dead."""
        process = process_of(self._context)
        if process is None or process.alive:
            self._context.copy().run(callback, *args)

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
        self.peer.pump()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def write(self, data: Buffer) -> None:
        if self._closing or self._lost:
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
        """No more reading or writing; what was written still arrives."""
        if not self._closing:
            self._closing = True
            self.pump()

    def abort(self) -> None:
        self.break_off(None)

    def break_off(self, error: Exception | None) -> None:
        """Ends the connection on both ends at once, losing what was under way."""
        for end in (self, self.peer):
            end._outgoing.clear()
            end._lose(error if end is self else ConnectionResetError(104, "connection reset by peer"))

    def pump(self) -> None:
        """Schedules the next delivery when there is something to deliver and the way is free."""
        if self._delivery is not None or self._lost:
            return
        if not self._outgoing and not (self._closing and not self._end_sent):
            return
        if self._network.is_cut(self.local[0], self.remote[0]) or not self.peer._reading:
            return
        latency = self._network.latency(self.local[0], self.remote[0])
        self._delivery = self._network.loop.call_later(latency, self._deliver, context=contextvars.Context())

    def _deliver(self) -> None:
        self._delivery = None
        if self._lost or self.peer._lost or not self.peer._reading or self._network.is_cut(self.local[0], self.remote[0]):
            return
        if self._outgoing:
            size = min(len(self._outgoing), self._network.window)
            piece = bytes(self._outgoing[:size])
            del self._outgoing[:size]
            if not self.peer._closing:
                if self._network.on_delivery is not None:
                    self._network.on_delivery(self.local, self.remote, piece)
                self.peer.enter(self.peer._receive, piece)
            if self._writing_paused and len(self._outgoing) <= self._low:
                self._writing_paused = False
                self.enter(self._protocol.resume_writing)
        if self._closing and not self._outgoing:
            self._end_sent = True
            self._lose(None)
            self.peer.enter(self.peer._end_of_stream)
        else:
            self.pump()

    def _receive(self, piece: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, self._protocol).data_received(piece)
            return
        view = memoryview(piece)
        while view and not self._lost:
            buffer = memoryview(self._protocol.get_buffer(len(view)))
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            buffer.release()
            self._protocol.buffer_updated(taken)
            view = view[taken:]

    def _end_of_stream(self) -> None:
        if self._lost:
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
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        self._network.drop(self)
        self._network.loop.call_soon(self._protocol.connection_lost, error, context=self._context.copy())
