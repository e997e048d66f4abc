"""Requests to the active controller. A request waits until a controller is known, and follows a change of the controller
(NodeToControllerRequestThread).

    waiting --a controller is known--> sent --answered--> done
       ^--NOT_CONTROLLER, lost, late-----|

A request ends with the first response other than NOT_CONTROLLER, from whichever controller, or at its deadline with REQUEST_TIMED_OUT. A
controller may have executed a sent request, even more than once. All requests of brokers to controllers tolerate that; Kafka, too, resends
clients' forwarded requests after a lost connection. One case differs from Kafka: a request under way to a stopped controller that keeps its
connections. Kafka waits for the response of that controller. Here the next controller is asked as soon as it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.timing import Alarm, Backoff
from odradek.network.peers import Address

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.protocol.schema import Message

_FIRST_RETRY_MS, _LONGEST_RETRY_MS = 50, 400
_MOST_PENDING = 10_000
_AGAIN = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE})

Send = Callable[[Address, "Message", int, float], "Deferred[Message]"]
"""(controller, request, highest version, timeout in seconds) -> the response."""


class _Pending:
    """A request without a response. `attempt` counts how often it was sent; `sent_to` is the node that has it now, None while it waits."""

    __slots__ = ("at_most", "attempt", "backoff", "deadline", "number", "problem", "request", "result", "retry", "sent_to")

    deadline: Alarm
    retry: Alarm

    def __init__(self, number: int, request: Message, at_most: int) -> None:
        self.number = number
        self.request = request
        self.at_most = at_most
        self.result: Deferred[Message] = Deferred()
        self.attempt = 0
        self.backoff = Backoff(_FIRST_RETRY_MS, _LONGEST_RETRY_MS)
        self.sent_to: int | None = None
        self.problem = "the active controller is unknown"


def _closed_error() -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, "the channel is closed")


class ControllerRequests:
    """Pending requests of a node to the active controller."""

    def __init__(self, clock: Clock, controller: Callable[[], Address | None], send: Send, *, attempt_timeout_s: float = 30.0) -> None:
        """`controller` returns the leader of the metadata quorum as far as this node knows it. `send` must not call back during the call
        when the leader is this node. `attempt_timeout_s` (controller.socket.timeout.ms) bounds the wait for one response.
        """
        self._clock = clock
        self._controller = controller
        self._send = send
        self._attempt_timeout_s = attempt_timeout_s
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def send(self, request: Message, at_most: int, timeout_s: float) -> Deferred[Message]:
        """Return the response of the active controller within `timeout_s`. The Deferred fails with KafkaError: REQUEST_TIMED_OUT,
        UNSUPPORTED_VERSION, or NETWORK_EXCEPTION when too many requests are pending or after `close`.
        """
        if self._closed:
            return Deferred.failed(_closed_error())
        if len(self._pending) >= _MOST_PENDING:
            return Deferred.failed(
                KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{_MOST_PENDING} requests already wait for the active controller")
            )
        self._number += 1
        pending = _Pending(self._number, request, at_most)
        self._pending[pending.number] = pending
        pending.retry = Alarm(self._clock, lambda: self._attempt(pending))
        pending.deadline = Alarm(self._clock, lambda: self._late(pending, timeout_s))
        pending.deadline.set(timeout_s)
        self._attempt(pending)
        return pending.result

    def controller_changed(self) -> None:
        """Send to the current controller all requests that were not sent to it."""
        controller = self._controller()
        if controller is None or self._closed:
            return
        for pending in list(self._pending.values()):
            pending.backoff.reset()
            if pending.sent_to != controller.node_id:
                self._attempt(pending)

    def close(self) -> None:
        """Fail the waiting requests and send no further attempt. Requests under way are still answered, or fail with their attempt."""
        self._closed = True
        for pending in list(self._pending.values()):
            if pending.sent_to is None:
                self._fail(pending, _closed_error())

    def _attempt(self, pending: _Pending) -> None:
        pending.retry.cancel()
        if pending.result.done:
            return
        controller = self._controller()
        if controller is None:
            pending.sent_to = None
            pending.retry.set(pending.backoff.next_s())
            return
        pending.attempt += 1
        pending.sent_to = controller.node_id
        attempt = pending.attempt
        left_s = max(pending.deadline.due_s - self._clock.monotonic(), 0.0)
        answer = self._send(controller, pending.request, pending.at_most, min(left_s, self._attempt_timeout_s))
        answer.add_callback(lambda done: self._answered(pending, attempt, done))

    def _answered(self, pending: _Pending, attempt: int, done: Deferred[Message]) -> None:
        if pending.result.done:
            return
        error = done.error
        if error is None:
            response = done.result()
            if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NOT_CONTROLLER:
                self._take(pending)
                pending.result.complete(response)
                return
            error = KafkaError(ErrorCode.NOT_CONTROLLER)
        if attempt != pending.attempt:
            return  # a later attempt has replaced this one
        if not isinstance(error, KafkaError) or error.code not in _AGAIN or self._closed:
            self._fail(pending, error)
            return
        pending.problem = str(error)
        pending.sent_to = None
        pending.retry.set(pending.backoff.next_s())

    def _late(self, pending: _Pending, timeout_s: float) -> None:
        reason = f"no response from the active controller within {timeout_s:g} s"
        if pending.sent_to is None:
            reason += f" ({pending.problem})"
        self._fail(pending, KafkaError(ErrorCode.REQUEST_TIMED_OUT, reason))

    def _fail(self, pending: _Pending, error: BaseException) -> None:
        self._take(pending)
        pending.result.fail(error)

    def _take(self, pending: _Pending) -> None:
        self._pending.pop(pending.number, None)
        pending.deadline.close()
        pending.retry.close()
