"""Requests and responses of one connection, without the connection: bytes in, responses out; no IO, time as an argument.

Responses come in the order of the requests (Kafka's promise per connection); any other order is an error.
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
"""Bytes of the largest response that a size prefix can announce."""
EAGER_BYTES = 64 * 1024 * 1024
"""Most bytes of a response that may be allocated before they have arrived."""
LENT_BYTES = 64 * 1024 * 1024
"""Most bytes of receive buffers that are reused after large responses. They suffice for three responses of 16 MiB: one is received, one
waits and one is read. Each small response forgets one buffer, so that a client holds this memory only while it reads much.
"""
_CORRELATION_MASK = 0x7FFF_FFFF


class ConnectionLost(OdradekError):
    """Failure to connect, or end of a connection; requests in flight may or may not have been executed."""


class _InFlight:
    __slots__ = ("api_key", "api_version", "correlation_id", "deadline", "deferred")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, deadline: float, deferred: Deferred[memoryview]) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.deferred = deferred


class RequestPipeline:
    """Correlation of requests and responses of one connection. Times are seconds of the caller's monotonic clock."""

    def __init__(self, client_id: str | None, *, pool: BufferPool | None = None, max_response: int = MAX_RESPONSE) -> None:
        self.client_id = client_id
        self._pool = pool or BufferPool(1 << 62, lent=LENT_BYTES)
        self.receiver = FrameReceiver(self._pool, max_response, eager_bytes=min(EAGER_BYTES, max_response))
        self.answered = 0
        """Number of responses so far."""
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self.error: ConnectionLost | None = None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def encode(
        self, api_key: int, api_version: int, body: Sequence[Bytes], deadline: float, *, expect_response: bool = True
    ) -> tuple[list[Bytes], Deferred[memoryview]]:
        """Return the chunks to write for a request, and the deferred body of its response.

        Without an expected response the deferred holds an empty view at once.
        """
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
        """Return the earliest deadline of the requests in flight, or None when none is in flight."""
        return min((request.deadline for request in self._in_flight), default=None)

    def received(self, size: int) -> None:
        """Take `size` bytes that were put into `receiver.space()`, and complete the requests that they answer.

        Raises ProtocolError for a response that is malformed or out of order.
        """
        receiver = self.receiver
        receiver.received(size)
        while (frame := receiver.next_frame()) is not None:
            self._answer(frame)
            del frame
        if receiver.frame_done():
            receiver.reserve()

    def _answer(self, frame: memoryview) -> None:
        if not self._in_flight:
            raise ProtocolError("a response without a request")
        request = self._in_flight[0]
        correlation_id, offset = decode_response_header(frame, request.api_key, request.api_version)
        if correlation_id != request.correlation_id:
            raise ProtocolError(f"response {correlation_id} instead of {request.correlation_id}")
        # Not earlier: after a ProtocolError, `fail` must find the request.
        self._in_flight.popleft()
        self.answered += 1
        if len(frame) <= SMALL_FRAME:
            self._pool.forget_lent()
        request.deferred.complete(frame[offset:])

    def fail(self, error: ConnectionLost) -> None:
        """Fail every request in flight with `error`, because the connection is gone."""
        if self.error is None:
            self.error = error
        lost, self._in_flight = self._in_flight, deque()
        for request in lost:
            request.deferred.fail(error)
        self.receiver.release()
