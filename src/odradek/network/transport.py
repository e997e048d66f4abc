"""Client side of a connection: dialling, pipelining, timeouts.

Clients, replication, Raft and forwarding all use this module. A failed connection stays failed: the caller reconnects and backs off.
Responses come in the order of the requests (Kafka's promise per connection); any other order closes the connection.

`pipeline` is the pure core, which a blocking shell can drive as well.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from odradek.base.addresses import host_port
from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ProtocolError
from odradek.base.timing import Alarm, Grace
from odradek.network.pipeline import EAGER_BYTES, MAX_RESPONSE, Bytes, ConnectionLost, RequestPipeline

if TYPE_CHECKING:
    from odradek.protocol.schema import Message

__all__ = [
    "DEFAULT_MAX_IN_FLIGHT",
    "MAX_RESPONSE",
    "ClientConnection",
    "ConnectionLost",
    "Meter",
    "RequestPipeline",
    "RequestTimedOut",
    "TlsFailed",
    "dial",
]

DEFAULT_MAX_IN_FLIGHT = 5
"""max.in.flight.requests.per.connection."""


class RequestTimedOut(ConnectionLost):
    """Timeout of a request. The connection is closed, because later responses could not be told apart from the late one."""


class TlsFailed(ConnectionLost):
    """Failure of TLS: a side does not accept the other's certificate, or both have no protocol or cipher in common."""

    def __init__(self, where: str, error: ssl.SSLError) -> None:
        super().__init__(f"TLS with {where} failed: {error.reason or error}")
        self.error = error


class Meter(Protocol):
    """Observer of a connection's traffic; times are seconds of the connection's clock."""

    def sent(self, api_key: int, size: int, now_s: float, *, answered: bool) -> None:
        """Record that a request of `size` bytes was written; `answered` says whether a response will come."""
        ...

    def received(self, size: int, answers: int, now_s: float) -> None:
        """Record that `size` bytes arrived, and that they completed `answers` responses, in the order of their requests."""
        ...


R = TypeVar("R", bound="Message")


class ClientConnection(asyncio.BufferedProtocol):
    """Open connection to a broker; made by `dial`.

    At most `max_in_flight` requests are on the wire; at most `max_queued` further requests wait here. A response of more than
    `max_response` bytes closes the connection.
    """

    def __init__(
        self,
        clock: Clock,
        client_id: str | None,
        *,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        max_queued: int = 1000,
        max_response: int = MAX_RESPONSE,
        where: str = "the other side",
    ) -> None:
        self._clock = clock
        self._where = where
        self._pipeline = RequestPipeline(client_id, max_response=max_response)
        self._max_in_flight = max_in_flight
        self._max_queued = max_queued
        self._queue: deque[tuple[int, int, Sequence[Bytes], float, bool, Deferred[memoryview]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._write_paused = False
        self._alarm = Alarm(clock, self._check_deadlines)
        """Alarm at or before the earliest deadline of all requests."""
        self._grace = Grace(self._alarm)
        self._on_close: list[Callable[[ConnectionLost], object]] = []
        self._paused = False
        self._release = Alarm(clock, self._drain_queue)
        """Alarm at the end of a hold."""
        self.meter: Meter | None = None
        self.active_s = clock.monotonic()
        """Monotonic seconds of the last use: a request was sent or bytes came. Urgent requests and requests that wait here do not count."""
        self.lost_requests = 0
        """Number of requests that the end of the connection left without a response."""

    # -- for the owner ---------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def in_flight(self) -> int:
        """Requests on the wire or waiting for it."""
        return self._pipeline.in_flight + len(self._queue)

    @property
    def answers(self) -> int:
        """Number of responses so far."""
        return self._pipeline.answered

    @property
    def can_send(self) -> bool:
        """Whether a request would be sent at once."""
        return not self.closed and not self._queue and self._may_write()

    def hold(self, seconds: float) -> None:
        """Send no request within the next `seconds`, and extend the deadlines of waiting requests by the added delay.

        The broker does not read a muted connection earlier (KIP-219).
        """
        now = self._clock.monotonic()
        longer = now + seconds - (max(now, self._release.due_s) if self._release.is_set else now)
        if longer <= 0 or self.closed:
            return
        self._queue = deque((*request[:3], request[3] + longer, *request[4:]) for request in self._queue)
        self._release.set_at(now + seconds)

    def pause(self) -> None:
        """Send only urgent requests until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """End a pause, and send the requests that wait."""
        self._paused = False
        self._drain_queue()

    def limit_responses(self, size: int) -> None:
        """Accept responses of up to `size` bytes from now on."""
        self._pipeline.receiver.limit(size, eager_bytes=min(EAGER_BYTES, size))

    def on_close(self, callback: Callable[[ConnectionLost], object]) -> None:
        """Run `callback(error)` once the connection is gone; at once if it is gone already."""
        if self._pipeline.error is not None:
            callback(self._pipeline.error)
        else:
            self._on_close.append(callback)

    def send(
        self,
        api_key: int,
        api_version: int,
        body: Sequence[Bytes],
        *,
        timeout_s: float = 30.0,
        expect_response: bool = True,
        urgent: bool = False,
    ) -> Deferred[memoryview]:
        """Send a request, and return the deferred body of its response.

        An `urgent` request goes before waiting requests, even while the connection is paused or held. The result fails with ConnectionLost
        (RequestTimedOut after `timeout_s`).
        """
        if self.closed:
            return Deferred.failed(self._pipeline.error or ConnectionLost("the connection is closed"))
        now = self._clock.monotonic()
        deadline = (now if urgent or self._release.due_s == inf else max(now, self._release.due_s)) + timeout_s
        if not urgent and (self._queue or not self._may_write()):
            if len(self._queue) >= self._max_queued:
                return Deferred.failed(ConnectionLost(f"{self._max_queued} requests already wait for this connection"))
            deferred: Deferred[memoryview] = Deferred()
            self._queue.append((api_key, api_version, body, deadline, expect_response, deferred))
        else:
            if not urgent:
                self.active_s = now
            deferred = self._write(api_key, api_version, body, deadline, expect_response)
        if expect_response and deadline < self._alarm.due_s:
            self._alarm.set_at(deadline)
        return deferred

    def request(self, request: Message, response_class: type[R], api_version: int, *, timeout_s: float = 30.0) -> Deferred[R]:
        """Send a message, as `send` does, and return its decoded response. The response may hold views of the received bytes.

        The request must hold only bytes in memory.
        """
        answer = self.send(request.API_KEY, api_version, request.encode_chunks(api_version), timeout_s=timeout_s)
        return answer.then(lambda body: response_class.decode(body, api_version))

    def close(self) -> None:
        """Close at once; requests in flight fail with ConnectionLost."""
        self._fail(ConnectionLost("the connection was closed"))

    # -- asyncio's side --------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self._fail(TlsFailed(self._where, exc))
            return
        self._fail(ConnectionLost(f"the connection broke: {exc}" if exc is not None else "the other side closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._pipeline.receiver.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_s = now = self._clock.monotonic()
        answered = self._pipeline.answered
        try:
            self._pipeline.received(nbytes)
            if self.meter is not None:
                self.meter.received(nbytes, self._pipeline.answered - answered, now)
        except ProtocolError as error:
            self._fail(ConnectionLost(f"the other side does not speak Kafka: {error}"))
            return
        if self._queue:
            self._drain_queue()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._drain_queue()

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _write(self, api_key: int, api_version: int, body: Sequence[Bytes], deadline: float, expect_response: bool) -> Deferred[memoryview]:
        assert self._transport is not None
        chunks, deferred = self._pipeline.encode(api_key, api_version, body, deadline, expect_response=expect_response)
        if self.meter is not None:
            self.meter.sent(api_key, sum(map(len, chunks)), self._clock.monotonic(), answered=expect_response)
        self._transport.writelines(chunks)
        return deferred

    def _may_write(self) -> bool:
        full = self._pipeline.in_flight >= self._max_in_flight
        return not (full or self._write_paused or self._paused or self._release.due_s < inf)

    def _drain_queue(self) -> None:
        while self._queue and not self.closed and self._may_write():
            api_key, api_version, body, deadline, expect_response, waiting = self._queue.popleft()
            self.active_s = self._clock.monotonic()
            self._write(api_key, api_version, body, deadline, expect_response).into(waiting)

    def _check_deadlines(self) -> None:
        """Fail the connection when a request is still late after the grace of some loop iterations.

        After a pause of the process, its response may already be in the socket.
        """
        now = self._clock.monotonic()
        deadlines = [request[3] for request in self._queue]
        first = self._pipeline.next_deadline()
        if first is not None:
            deadlines.append(first)
        earliest = min(deadlines, default=inf)
        if earliest > now:
            self._grace.restart()
            self._alarm.set_at(earliest)
        elif not self._grace.waits():
            self._fail(RequestTimedOut("no response within the time limit"))

    def _fail(self, error: ConnectionLost) -> None:
        self._alarm.close()
        self._release.close()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._pipeline.error is not None:
            return
        self.lost_requests = self.in_flight
        self._pipeline.fail(error)
        waiting, self._queue = self._queue, deque()
        for *_, deferred in waiting:
            deferred.fail(error)
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback(error)


async def dial(
    host: str,
    port: int,
    *,
    clock: Clock,
    client_id: str | None,
    timeout_s: float = 10.0,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    max_queued: int = 1000,
    max_response: int = MAX_RESPONSE,
    loop: asyncio.AbstractEventLoop | None = None,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
    send_buffer: int = -1,
    receive_buffer: int = -1,
) -> ClientConnection:
    """Open a connection.

    `loop` provides the network (default: the running loop). `name` is the host name that `host` was resolved from: messages and
    certificates use it. The buffer sizes are those of the kernel in bytes; -1 leaves the choice to the kernel.

    Raises ConnectionLost when connecting fails or takes longer than `timeout_s`; TlsFailed, a ConnectionLost, when the TLS handshake fails.
    """
    loop = loop or asyncio.get_running_loop()
    name = name or host
    where = host_port(name, port)
    connection = ClientConnection(
        clock, client_id, max_in_flight=max_in_flight, max_queued=max_queued, max_response=max_response, where=where
    )
    hint = "" if tls is None else "; check whether this listener uses TLS (security.protocol)"
    try:
        async with asyncio.timeout(timeout_s):
            if tls is None:
                transport, _ = await loop.create_connection(lambda: connection, host, port)
            else:
                # asyncio's handshake timeout must not be shorter than `timeout_s`.
                limit = timeout_s + 60
                transport, _ = await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=name, ssl_handshake_timeout=limit
                )
    except TimeoutError:
        raise ConnectionLost(f"{where} did not respond within {timeout_s:g} s{hint}") from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError) as error:
        raise ConnectionLost(f"cannot connect to {where}: the other side closed the connection{hint}") from error
    except ssl.SSLError as error:
        raise TlsFailed(where, error) from None
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {where}: {error.strerror or error}") from None
    _set_buffers(transport, send_buffer, receive_buffer)
    return connection


def _set_buffers(transport: asyncio.BaseTransport, send_buffer: int, receive_buffer: int) -> None:
    found: socket.socket | None = transport.get_extra_info("socket")
    for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
        if size >= 0 and found is not None:
            found.setsockopt(socket.SOL_SOCKET, option, size)
