"""Requests of an accepted connection: received, cut into frames, and served in order. `network.states` has the states.

1. **One request in flight**, with one exception. While all requests in flight are `Applied`, a request for which `FrameHandler.may_follow`
   returns True is served, too. The bounds are `AcceptorLimits.pipelined_requests` and `pipelined_bytes`.
2. **Shares.** At most `REQUESTS_AT_ONCE` of the requests that one read brings are served before other connections continue, and the
   requests of all clients together have a few milliseconds of each loop iteration (`network.fairness`).
3. **Memory.** While no further request may be served, at most one more read is taken from the socket. Then reading pauses until the
   response has left. A connection whose next request needs more memory than the pool has is `starved`: reading pauses until the pool has
   memory.

Methods that need the connection take it as an argument, as in `network.outbound`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from odradek.base.deferred import Applied, Deferred
from odradek.base.timing import Alarm
from odradek.network import fairness
from odradek.network.fairness import CONNECTION_SHARE_S, REQUESTS_AT_ONCE
from odradek.network.frames import FrameReceiver
from odradek.network.outbound import SHORT
from odradek.network.states import DEFERRED, DELAYED, OPEN, QUEUED, READING, SERVING, WAITING, InboundState

if TYPE_CHECKING:
    from odradek.network.acceptor import Acceptor, Listener
    from odradek.network.chunks import Answer
    from odradek.network.connection import Connection
    from odradek.network.frames import BufferPool
    from odradek.network.outbound import Outbound

_API_KEY: Final = 2
"""Bytes of a request that decide whether it goes first."""


class NotYetError(Exception):
    """Exception by which a handler leaves the request in the receive buffer; the handler calls `Connection.go_on` later."""


class FrameHandler(Protocol):
    """Receiver of the requests of an acceptor's connections."""

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        """Answer one request.

        Views of `frame` may be kept; their bytes never change. After an `Applied` answer, later requests of the connection may be served at
        once.

        Raises ProtocolError to close the connection with a rate-limited log line; any other exception closes the connection with a
        traceback. NotYetError leaves the request in the receive buffer until the handler calls `Connection.go_on`.
        """
        ...

    def may_follow(self, frame: memoryview) -> bool:
        """Return whether the request may be served before earlier requests of its connection, all of them `Applied`, are answered."""
        ...

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        """Return whether to serve a request in a loop iteration whose time for clients is used up.

        `head` is the request's API key in bytes, or empty when no whole request has arrived.
        """
        ...


class Inbound:
    """Requests of one connection."""

    __slots__ = (
        "_acceptor",
        "_fairness",
        "_greedy_until_s",
        "_listener",
        "_mute",
        "_outbound",
        "frames",
        "pool",
        "receiver",
        "starved",
        "state",
        "transport",
    )

    def __init__(self, acceptor: Acceptor, listener: Listener, outbound: Outbound) -> None:
        self._acceptor = acceptor
        self._fairness = acceptor.fairness
        self._listener = listener
        self._outbound = outbound
        self._mute: Alarm | None = None
        """Alarm at the end of a mute; None while the connection is not muted."""
        self._greedy_until_s = 0.0
        """Monotonic seconds until which reads are queued; set after more than a share was received, 0 for nearly all connections."""
        self.state = READING
        self.transport: asyncio.Transport | None = None
        self.pool: BufferPool = acceptor.pool
        self.receiver = FrameReceiver(self.pool, acceptor.limits.request_size)
        self.starved = False
        """Whether the connection waits for receive memory."""
        self.frames = 0
        """Number of requests that were served."""

    def lost(self) -> None:
        """Release everything: the transport is gone."""
        self.transport = None
        self.state = InboundState.CLOSED
        if self._mute is not None:
            self._mute.close()
            self._mute = None

    @property
    def muted(self) -> bool:
        return self._mute is not None

    @property
    def is_busy(self) -> bool:
        """Whether received requests have to wait, or are served now."""
        state = self.state
        return state is SERVING or state is WAITING or state is QUEUED or state is DEFERRED

    # -- received bytes ------------------------------------------------------------------------------------------------------------

    def received(self, connection: Connection, size: int) -> None:
        """Take `size` bytes that were put into `receiver.space()`, and serve the requests in them if that may be done now."""
        receiver = self.receiver
        receiver.received(size)
        if self.state is READING:
            if not receiver.filling and not self._must_wait(connection):
                self._serve(connection)
            return
        transport = self.transport
        assert transport is not None
        transport.pause_reading()

    def _must_wait(self, connection: Connection) -> bool:
        """Queue the connection, and return True, if it had more than its share, or the clients' time is used up."""
        used_up = self._fairness.is_used_up()
        if self._greedy_until_s and self._acceptor.clock.monotonic() > self._greedy_until_s:
            self._greedy_until_s = 0.0
        if not self._greedy_until_s and not used_up:
            return False
        head = self.receiver.head(_API_KEY)
        if self._acceptor.handler.goes_first(connection, head) or not (head or self._greedy_until_s):
            return False
        self._queue(connection)
        return True

    # -- serving -------------------------------------------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        """Serve the whole frames that have arrived, until a frame has to wait. Short responses leave when the loop iteration ends."""
        self.state = SERVING
        short: list[bytes] = []
        try:
            state = self._serve_frames(connection, short)
            if short:
                outbound = self._outbound
                if not outbound.short:
                    self._fairness.write_soon(connection)
                if outbound.keep(connection, short):
                    state = WAITING
        except Exception as error:
            state = self._give_up(connection, error, short)
        if state is READING:
            self.state = READING
            self._read_on(connection)
        elif state is QUEUED:
            self._queue(connection)
        else:
            self.state = state
            self._keep_reading_little()

    def _serve_frames(self, connection: Connection, short: list[bytes]) -> InboundState:
        """Serve frames, and add short responses to `short`. Return the state after the last frame that may be served now."""
        receiver, outbound, acceptor, transport = self.receiver, self._outbound, self._acceptor, self.transport
        pending = outbound.pending
        left = REQUESTS_AT_ONCE
        until_s = 0.0  # monotonic seconds when other connections continue, from the second request on
        assert transport is not None
        while not transport.is_closing() and not self._listener.quiet:
            if pending and (outbound.state is not OPEN or not pending[-1].applied):
                return WAITING
            if self._mute is not None:
                return READING
            frame = receiver.next_frame()
            if frame is None:
                return READING
            if left < REQUESTS_AT_ONCE:
                now_s = acceptor.clock.monotonic()
                until_s = until_s or now_s + CONNECTION_SHARE_S
                if not left or now_s > until_s:
                    receiver.put_back(frame)
                    self._greedy_until_s = now_s + fairness.GREEDY_S
                    return QUEUED
            left -= 1
            if pending and not self._may_follow(frame):
                receiver.put_back(frame)
                return WAITING
            self.frames += 1
            size = len(frame)
            try:
                answer = acceptor.handler.handle_frame(connection, frame)
            except NotYetError:
                receiver.put_back(frame)
                self.frames -= 1
                outbound.flush(connection, short)
                return DEFERRED
            # The buffer is used again only when no view of it is alive.
            del frame
            if isinstance(answer, Deferred):
                if answer.done:
                    answer = answer.result()
                else:
                    if short or outbound.short:
                        outbound.flush(connection, short)
                    one = outbound.expect(size, applied=isinstance(answer, Applied))
                    answer.add_callback(partial(connection.completed, one))
                    continue
            if pending:
                outbound.queue(answer, size)
            elif answer is not None:
                if len(answer) == 1 and type(answer[0]) is bytes and len(answer[0]) <= SHORT:
                    short.append(answer[0])
                else:
                    outbound.flush(connection, short)
                    outbound.send(connection, answer)
                    if outbound.state is not OPEN:
                        return WAITING
        return READING

    def _may_follow(self, frame: memoryview) -> bool:
        """Return whether the request may be served while earlier requests, all of which have taken effect, wait for their responses."""
        limits = self._acceptor.limits
        outbound = self._outbound
        return (
            len(outbound.pending) < limits.pipelined_requests
            and outbound.pending_bytes + len(frame) <= limits.pipelined_bytes
            and self._acceptor.handler.may_follow(frame)
        )

    def _give_up(self, connection: Connection, error: Exception, short: list[bytes]) -> InboundState:
        """Close the connection after a request that cannot be answered: now, or after the responses ahead of it."""
        outbound = self._outbound
        outbound.flush(connection, short)
        if outbound.pending:
            outbound.queue(None, 0, error)
            return WAITING
        connection.fail(error)
        return READING

    # -- waiting -------------------------------------------------------------------------------------------------------------------

    def _queue(self, connection: Connection) -> None:
        """Queue the connection to continue with what was received. Until then, nothing looks for the end of what the peer sends."""
        self.state = QUEUED
        self._keep_reading_little()
        transport = self.transport
        assert transport is not None
        transport.pause_reading()
        first = self._acceptor.handler.goes_first(connection, self.receiver.head(_API_KEY))
        self._fairness.enqueue(connection, greedy=bool(self._greedy_until_s) and not first)

    def _keep_reading_little(self) -> None:
        """Take at most one more read, into memory that is already reserved, as no request is served for now."""
        receiver = self.receiver
        if receiver.frame_done() and not receiver.room and self.transport is not None:
            self.transport.pause_reading()

    def wait(self) -> None:
        """Serve no requests until `proceed`. Without effect on a connection that waits already, or serves a request now."""
        if self.state is READING:
            self.state = WAITING
            self._keep_reading_little()

    def proceed(self, connection: Connection) -> None:
        """Continue with what was received while the connection was WAITING. In other states, do nothing."""
        if self.state is not WAITING:
            return
        if not self.receiver.pending:
            self.state = READING
            self._read_on(connection)
            return
        # Do not serve here: another connection's request may have completed this one, and chains of such calls must not nest.
        self.state = QUEUED
        if self._acceptor.handler.goes_first(connection, self.receiver.head(_API_KEY)):
            self._acceptor.loop.call_soon(connection.go_on)
        else:
            self._fairness.enqueue(connection, greedy=False)

    def go_on(self, connection: Connection) -> None:
        """Serve the received requests, unless a response is still on its way to the socket."""
        if self.transport is None:
            return
        if self._outbound.state is OPEN:
            self._serve(connection)
        else:
            self.state = WAITING

    def delay(self) -> None:
        """Read nothing until `start_reading`."""
        self.state = DELAYED
        if self.transport is not None:
            self.transport.pause_reading()

    def start_reading(self, connection: Connection) -> None:
        """End the delay. Without effect when the connection is gone."""
        if self.state is DELAYED:
            self._serve(connection)

    def mute(self, connection: Connection, delay_s: float) -> None:
        """Serve no request for `delay_s` seconds, nor before an earlier mute ends. Requests in flight are still answered.

        (kafka.network.SocketServer, ChannelMuteState)
        """
        if self.transport is None:
            return
        clock = self._acceptor.clock
        until_s = clock.monotonic() + delay_s
        if self._mute is None:
            self._mute = Alarm(clock, partial(self._unmute, connection))
        elif until_s <= self._mute.due_s:
            return
        self._mute.set_at(until_s)
        if self.state is not SERVING:
            self.wait()

    def _unmute(self, connection: Connection) -> None:
        self._mute = None
        if self._outbound.state is OPEN:
            self.proceed(connection)

    # -- memory --------------------------------------------------------------------------------------------------------------------

    def _read_on(self, connection: Connection) -> None:
        """Reserve memory for the next request, and read."""
        if self._mute is not None:
            self.wait()
            return
        receiver, transport = self.receiver, self.transport
        assert transport is not None
        if self._listener.quiet:
            transport.pause_reading()
        elif receiver.frame_done() and not receiver.reserve():
            self._starve(connection, transport)
        elif not self.starved and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def _starve(self, connection: Connection, transport: asyncio.Transport) -> None:
        self.starved = True
        transport.pause_reading()
        self._wait_for_memory(connection)

    def _wait_for_memory(self, connection: Connection) -> None:
        self.pool.wait(partial(self._fed, connection))
        if self.pool is self._acceptor.login_pool:
            self._acceptor.make_room_for_login(connection)

    def _fed(self, connection: Connection) -> None:
        transport = self.transport
        if transport is None:
            return
        if not self.receiver.reserve():
            self._wait_for_memory(connection)
            return
        self.starved = False
        connection.partial_frames = -1  # the wait was the server's, so the deadline of the frame starts again
        if self.state is READING and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def receive(self, size: int, pool: BufferPool) -> None:
        """Accept requests of at most `size` bytes from now on, in memory of `pool`."""
        self.receiver.limit(size, eager_bytes=0)
        self.receiver.use(pool)
        self.pool = pool

    def shrink(self) -> None:
        """Replace a large receive buffer by a small one, when nothing has come since the last sweep."""
        if not self.is_busy:
            self.receiver.shrink()
