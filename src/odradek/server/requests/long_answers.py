"""Long responses, made in several loop iterations, so that requests of other clients are served in between.

A handler whose work grows with the items in its request is a generator. The handler yields the structs of its response's array, in order,
and returns the response without them:

    def handle(context, request, broker) -> Entries[DescribeGroupsResponse]:
        for group_id in answered(request.groups):
            yield _described(group_id)
        return DescribeGroupsResponse()

The handler may also yield a Deferred of such a struct: `LongAnswers` waits for it. After work that makes no struct the handler yields None.
The loop may serve other requests at each `yield`. A struct is encoded as soon as it is yielded: bytes wait, not objects.

1. The first slice runs at once. Nearly all responses are completed in it and never wait.
2. A slice ends after `ITERATION_S` or `ITERATION_BYTES`. An unfinished response is queued. All queued responses share one slice per loop
   iteration.
3. A response of more than `MOST_BYTES` is refused with INVALID_REQUEST. While all responses under way hold more than `TOGETHER_BYTES`, only
   the oldest continues.
4. A response whose connection is gone is abandoned.
5. Requests of responses under way stay decoded. When these requests have more than `REQUEST_BYTES`, the next response is made in a single
   slice, and its connection owes the response (`network.unsent_bytes`).
6. A response that waits for a Deferred cannot be made in a single slice: beyond the same bound requests are not even decoded
   (`server.requests.held_requests`).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.protocol.schema import Array, Message, Struct
from odradek.server.metering.measuring import CountErrors, count_nothing, error_counter
from odradek.server.requests.held_requests import HeldRequests

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries

ITERATION_S: Final = 0.001
ITERATION_BYTES: Final = 256 * 1024
STEPS_PER_LOOK: Final = 4
"""Steps without a struct (such as a partition of ListOffsets) after which the clock is read."""
MOST_BYTES: Final = 128 * 1024 * 1024
TOGETHER_BYTES: Final = 64 * 1024 * 1024
REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Bytes on the wire; decoded, requests take up to 30 times as much."""


class _Making:
    """Response under way."""

    __slots__ = ("context", "count", "errors", "field", "has_waited", "held", "made", "request_size", "result", "steps", "waiting")

    def __init__(self, context: RequestContext, request_size: int, steps: Entries[Any]) -> None:
        self.context = context
        self.request_size = request_size
        self.steps = steps
        self.errors = None if context.measured is None else context.measured.errors
        self.count: CountErrors = count_nothing
        self.result: Deferred[Message] = Deferred()
        self.made: list[bytes] = []
        self.field = ""
        """Name of the response's array of the structs."""
        self.held = 0
        """Bytes of `made`."""
        self.waiting = False
        self.has_waited = False
        """Whether the response has waited for a Deferred; stays true after the wait."""

    @property
    def gone(self) -> bool:
        connection = self.context.connection
        return connection is not None and connection.closed

    def take(self, entry: Struct) -> int:
        """Encode one struct and return its size in bytes."""
        if not self.field:
            self.field = _array_of(entry)
            self.count = error_counter(type(entry))
        if self.errors is not None:
            self.count(entry, self.errors)
        data = entry.encode_entry(self.context.api_version)
        self.made.append(data)
        self.held += len(data)
        return len(data)

    def complete(self, response: Message) -> None:
        if self.made:
            setattr(response, self.field, self.made)
        self.result.complete(response)


class LongAnswers:
    """Responses under way, oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._making: dict[_Making, None] = {}
        self._queue: deque[_Making] = deque()
        self._called = False
        self._held = 0
        self._requested = 0
        """Bytes of the requests whose responses are under way."""
        self.held_requests = HeldRequests(clock, REQUEST_BYTES)

    def __len__(self) -> int:
        """Return the number of responses under way."""
        return len(self._making)

    def serve(self, context: RequestContext, request_size: int, steps: Entries[Any]) -> Deferred[Any]:
        """Return the response (`Message`) to a request of `request_size` bytes, and make its first slice.

        The error codes of its structs are counted with the request's.
        """
        making = _Making(context, request_size, steps)
        in_one_go = self._requested + request_size > REQUEST_BYTES and bool(self._making)
        self._making[making] = None
        self._requested += request_size
        if not self._go_on(making, inf if in_one_go else self._clock.monotonic() + ITERATION_S) and not making.waiting:
            self._stand(making)
        return making.result

    def _stand(self, making: _Making) -> None:
        self._queue.append(making)
        self._call()

    def _call(self) -> None:
        """Schedule the next slice if responses are queued."""
        if not self._called and self._queue:
            self._called = True
            self._clock.call_later(0, self._make_slices)

    def _make_slices(self) -> None:
        until = self._clock.monotonic() + ITERATION_S
        queue = self._queue
        try:
            for _ in range(len(queue)):
                making = queue.popleft()
                if self._may_go_on(making):
                    self._metered(making, until)
                else:
                    queue.append(making)
                if self._clock.monotonic() > until:
                    break
        finally:
            self._called = False
            if any(map(self._may_go_on, queue)):
                self._call()

    def _may_go_on(self, making: _Making) -> bool:
        return self._held <= TOGETHER_BYTES or making.gone or making is next(iter(self._making))

    def _metered(self, making: _Making, until: float) -> None:
        if making.gone:
            making.steps.close()
            self._end(making)
            making.result.fail(ProtocolError("the connection was closed"))
        elif not self._go_on(making, until) and not making.waiting:
            self._queue.append(making)

    def _go_on(self, making: _Making, until: float) -> bool:
        """Make the next structs of one response. Return whether it is complete. `until` is in monotonic seconds; infinity means all
        structs.
        """
        meter = making.context.meter
        if meter is not None:
            meter.begin()
        try:
            response = self._made(making, until)
        except Exception as error:
            self._end(making)
            making.result.fail(error)
            return True
        finally:
            if meter is not None:
                meter.end()
        if response is None:
            return False
        self._end(making)
        making.complete(response)
        return True

    def _made(self, making: _Making, until: float) -> Message | None:
        left = ITERATION_BYTES if isfinite(until) else MOST_BYTES + 1
        unseen = STEPS_PER_LOOK
        steps = making.steps
        while True:
            try:
                entry = next(steps)
            except StopIteration as stop:
                response: Message = stop.value
                return response
            if isinstance(entry, Deferred):
                if not entry.done:
                    making.waiting = True
                    if not making.has_waited:
                        making.has_waited = True
                        self.held_requests.begin(making.context.api_key, making.request_size)
                    entry.add_callback(partial(self._waited, making))
                    return None
                entry = entry.result()
            if entry is not None:
                left -= self._take(making, entry)
            elif unseen > 1:
                unseen -= 1
                continue
            unseen = STEPS_PER_LOOK
            if left <= 0 or self._clock.monotonic() > until:
                return None

    def _take(self, making: _Making, entry: Struct) -> int:
        """Add a struct to the response and return its size in bytes. Raises KafkaError when the response exceeds `MOST_BYTES`."""
        size = making.take(entry)
        self._held += size
        if making.held > MOST_BYTES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The response has more than {MOST_BYTES} bytes: request less at a time.")
        return size

    def _waited(self, making: _Making, entry: Deferred[Any]) -> None:
        making.waiting = False
        try:
            found = entry.result()
            if found is not None:
                self._take(making, found)
        except Exception as error:
            self._end(making)
            making.result.fail(error)
            return
        self._stand(making)

    def _end(self, making: _Making) -> None:
        self._making.pop(making, None)
        self._held -= making.held
        self._requested -= making.request_size
        if making.has_waited:
            self.held_requests.end(making.context.api_key, making.request_size)
        self._call()


def _array_of(entry: Struct) -> str:
    name = type(entry).__name__
    message = type(entry).declaring_message
    for field in message.FIELDS:
        if isinstance(field.type, Array) and field.type.element == name:
            return field.name
    raise TypeError(f"{message.__name__} has no array of {name}")
