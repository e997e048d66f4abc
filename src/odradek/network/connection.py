"""Accepted connection: its identity and its life between the transport, the acceptor and two state machines.

`network.inbound` receives requests and serves them, `network.outbound` sends the responses in the order of the requests. `network.states`
has the states of both, and what joins them. `Connection` passes the transport's and the acceptor's calls on to the machine concerned.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from odradek.base.errors import ProtocolError
from odradek.network.inbound import Inbound
from odradek.network.outbound import Outbound, Pending
from odradek.network.states import DELAYED, OPEN, SERVING
from odradek.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.base.deferred import Deferred
    from odradek.network.acceptor import Acceptor, Listener
    from odradek.network.chunks import Chunk
    from odradek.network.frames import BufferPool

logger = logging.getLogger(__name__)


class Connection(asyncio.BufferedProtocol):
    """Accepted connection. `connection_id` has Kafka's form local:port-remote:port-index."""

    __slots__ = (
        "_acceptor",
        "_receiver",
        "_transport",
        "active",
        "connection_id",
        "idle_since",
        "inbound",
        "listener",
        "outbound",
        "partial_frames",
        "partial_since",
        "peer_host",
        "peer_port",
        "principal",
        "session",
    )

    def __init__(self, acceptor: Acceptor, listener: Listener) -> None:
        self._acceptor = acceptor
        self.listener = listener
        self._transport: asyncio.Transport | None = None
        self.outbound = Outbound(acceptor)
        self.inbound = Inbound(acceptor, listener, self.outbound)
        self._receiver = self.inbound.receiver
        self.connection_id = ""
        self.peer_host = ""
        self.peer_port = 0
        self.principal: Principal = ANONYMOUS
        """Principal that the connection has authenticated as."""
        self.session: object | None = None
        """State that the handler keeps for a connection that authenticates by messages."""
        self.active = True
        """Whether bytes were received, or taken by the socket, since the last sweep."""
        # Written by the acceptor's sweep.
        self.idle_since = 0.0
        self.partial_since = 0.0
        self.partial_frames = -1

    # -- state ---------------------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._transport is None

    @property
    def closing(self) -> bool:
        """Whether the connection ends, or has ended."""
        return self._transport is None or self._transport.is_closing()

    @property
    def busy(self) -> bool:
        """Whether a request waits for its response, or a response for the socket."""
        return self.inbound.is_busy or bool(self.outbound.pending)

    @property
    def parked(self) -> bool:
        """Whether a request waits for its response (not for the socket, nor for the end of a mute)."""
        if self.inbound.muted and not self.outbound.pending:
            return False
        return self.busy and self.outbound.state is OPEN

    @property
    def muted(self) -> bool:
        """Whether the connection waits because of a quota."""
        return self.inbound.muted

    @property
    def delayed(self) -> bool:
        """Whether the connection is not read yet, because of the connection rate."""
        return self.inbound.state is DELAYED

    @property
    def starved(self) -> bool:
        """Whether the connection waits for receive memory."""
        return self.inbound.starved

    @property
    def frames(self) -> int:
        """Number of requests that were served."""
        return self.inbound.frames

    @property
    def pool(self) -> BufferPool:
        """Pool of the memory that requests are received into."""
        return self.inbound.pool

    @property
    def bytes_pending(self) -> int:
        """Bytes received that are not a whole request yet, or wait behind requests in flight."""
        return self._receiver.pending

    @property
    def bytes_held(self) -> int:
        """Bytes of the receive buffer."""
        return self._receiver.capacity

    def unsent(self) -> int:
        """Return the bytes that were written to the transport and that the kernel has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # -- asyncio's side ------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self.inbound.transport = self.outbound.transport = cast(asyncio.Transport, transport)
        self._acceptor.connected(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.inbound.lost()
        self.outbound.lost(self)
        self._receiver.release()
        self._acceptor.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Memory for a started frame is reserved in `Inbound`, outside this callback. The first memory of a connection is never refused.
        return self._receiver.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        self.inbound.received(self, nbytes)

    def nothing_came(self) -> None:
        """Release the unused memory from `get_buffer`: the received bytes are not a whole TLS record yet."""
        if not self._receiver.pending:
            self._receiver.release()

    def eof_received(self) -> bool:
        self.outbound.write_short(self)
        return False

    def pause_writing(self) -> None:
        self.outbound.pause()

    def resume_writing(self) -> None:
        self.active = True
        self.outbound.resume(self)
        if self.inbound.state is not SERVING:
            self.send_ready()

    # -- responses -----------------------------------------------------------------------------------------------------------------

    def completed(self, one: Pending, deferred: Deferred[Sequence[Chunk] | None]) -> None:
        """Take the response, or the error, of a request in flight; it leaves at the end of the loop iteration."""
        if self.outbound.complete(one, deferred):
            fairness = self._acceptor.fairness
            if self not in fairness.ready:
                fairness.send_soon(self)

    def send_ready(self) -> None:
        """Send the responses that may leave now. When nothing is left for the socket, serve requests again."""
        if self.outbound.send_ready(self):
            self.inbound.proceed(self)

    def write_short(self) -> None:
        """Write the short responses at the end of the loop iteration. If the peer does not take them, serve no further requests."""
        self.outbound.write_short(self)
        if self.outbound.state is not OPEN:
            self.inbound.wait()

    def fail(self, error: BaseException) -> None:
        """Close the connection after a request that cannot be answered."""
        if isinstance(error, ProtocolError):
            self._acceptor.quiet_log.warning("closing %s: %s", self.connection_id or "a connection", error)
        else:
            logger.error("closing %s: no response could be sent to a request", self.connection_id, exc_info=error)
        self.abort()

    # -- the acceptor's side -------------------------------------------------------------------------------------------------------

    def await_login(self, size: int) -> None:
        """Accept requests of at most `size` bytes until `logged_in`, in memory that is apart from the memory of clients."""
        self.inbound.receive(size, self._acceptor.login_pool)

    def logged_in(self, size: int) -> None:
        """Accept requests of at most `size` bytes from now on, in the memory of clients."""
        self.inbound.receive(size, self._acceptor.pool)

    def shrink(self) -> None:
        """Replace a large receive buffer by a small one, when nothing has come since the last sweep."""
        self.inbound.shrink()

    def delay(self) -> None:
        """Read nothing until `start_reading`, because of the connection rate."""
        self.inbound.delay()

    def start_reading(self) -> None:
        """End the delay that the connection rate put on this connection."""
        self.inbound.start_reading(self)

    def mute(self, delay_s: float) -> None:
        """Serve no request for `delay_s` seconds, nor before an earlier mute ends. Requests in flight are still answered."""
        self.inbound.mute(self, delay_s)

    def go_on(self) -> None:
        """Serve the received requests, unless a response is still on its way to the socket."""
        self.inbound.go_on(self)

    def close(self) -> None:
        """Close the connection after the bytes that the transport has are sent."""
        self.outbound.write_short(self)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
