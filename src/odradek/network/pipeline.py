"""Requests and responses of one connection, without the connection: bytes in, answers out; no IO, time as an argument.

Responses come in the order of the requests (Kafka's promise per connection); anything else is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from odradek.base.deferred import Deferred
from odradek.base.errors import OdradekError, ProtocolError
from odradek.network.frames import SIZE, SMALL_FRAME, BufferPool, FrameReceiver
from odradek.protocol.headers import decode_response_header, encode_request_header

Bytes = bytes | bytearray | memoryview

MAX_RESPONSE = 2**31 - 1
"""The largest answer that a size prefix can announce, bytes."""
EAGER_BYTES = 64 * 1024 * 1024
"""How much of an answer may be allocated before it has come."""
LENT_BYTES = 64 * 1024 * 1024
"""Of answers that are being read, whose memory is used again: three of 16 MiB, of which one is received, one waits and one is read. Each
small answer has one forgotten, so that a client holds this memory only while it reads much."""
_CORRELATION_MASK = 0x7FFF_FFFF


class ConnectionLost(OdradekError):
    """The connection could not be made, was closed or broke; requests in flight may or may not have been executed."""


class _InFlight:
    __slots__ = ("api_key", "api_version", "correlation_id", "deadline", "deferred")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, deadline: float, deferred: Deferred[memoryview]) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.deferred = deferred


class RequestPipeline:
    """Correlates requests and responses of one connection. Times are seconds of the caller's monotonic clock."""

    def __init__(self, client_id: str | None, *, pool: BufferPool | None = None, max_response: int = MAX_RESPONSE) -> None:
        self.client_id = client_id
        self._pool = pool or BufferPool(1 << 62, lent=LENT_BYTES)
        self.receiver = FrameReceiver(self._pool, max_response, eager_bytes=min(EAGER_BYTES, max_response))
        self.answered = 0
        """How many answers have come."""
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self.error: ConnectionLost | None = None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def encode(
        self, api_key: int, api_version: int, body: Sequence[Bytes], deadline: float, *, expect_response: bool = True
    ) -> tuple[list[Bytes], Deferred[memoryview]]:
        """The chunks to write for a request, and what will hold the body of its response (an empty view at once when none is expected)."""
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & _CORRELATION_MASK
        header = encode_request_header(api_key, api_version, correlation_id, self.client_id)
        size = len(header)
        for chunk in body:
            size += len(chunk)
        chunks: list[Bytes] = [SIZE.pack(size) + header, *body]
        deferred: Deferred[memoryview] = Deferred()
        if not expect_response:
            deferred.complete(memoryview(b""))
            return chunks, deferred
        self._in_flight.append(_InFlight(api_key, api_version, correlation_id, deadline, deferred))
        return chunks, deferred

    def next_deadline(self) -> float | None:
        """When the earliest request in flight runs out of time; None with nothing in flight."""
        return min((request.deadline for request in self._in_flight), default=None)

    def received(self, size: int) -> None:
        """Takes in `size` bytes that were put into `receiver.space()` and completes what they answer; ProtocolError on nonsense."""
        receiver = self.receiver
        receiver.received(size)
        while (frame := receiver.next_frame()) is not None:
            self._answer(frame)
            del frame
        if receiver.frame_done():
            receiver.reserve()

    def _answer(self, frame: memoryview) -> None:
        if not self._in_flight:
            raise ProtocolError("a response nobody asked for")
        request = self._in_flight.popleft()
        correlation_id, offset = decode_response_header(frame, request.api_key, request.api_version)
        if correlation_id != request.correlation_id:
            self._in_flight.appendleft(request)
            raise ProtocolError(f"response {correlation_id} where {request.correlation_id} was due")
        self.answered += 1
        if len(frame) <= SMALL_FRAME:
            self._pool.forget_lent()
        request.deferred.complete(frame[offset:])

    def fail(self, error: ConnectionLost) -> None:
        """The connection is gone: everything in flight fails with `error`."""
        if self.error is None:
            self.error = error
        lost, self._in_flight = self._in_flight, deque()
        for request in lost:
            request.deferred.fail(error)
        self.receiver.release()
