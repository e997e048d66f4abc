"""Peers' requests that wait for the core's response, and the core's own requests to peers."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.consensus.messages import Event, Outbound, Request, RequestReceived, Response, ResponseReceived


class Exchange:
    """Open requests: those of peers by token, those of the core by correlation."""

    __slots__ = ("_closed", "_next_token", "_send", "_step", "_waiting")

    def __init__(self, step: Callable[[Event], None], send: Callable[[Outbound], Deferred[Response]]) -> None:
        """Create the exchange. `step` passes an event to the core, `send` a message to its destination."""
        self._step = step
        self._send = send
        self._waiting: dict[int, Deferred[Response]] = {}
        self._next_token = 0
        self._closed = False

    def receive(self, request: Request) -> Deferred[Response]:
        """Pass a peer's request to the core. The response fails with BROKER_NOT_AVAILABLE when the node stops first."""
        answer: Deferred[Response] = Deferred()
        if self._closed:
            answer.fail(_shutting_down())
            return answer
        self._next_token += 1
        self._waiting[self._next_token] = answer
        self._step(RequestReceived(self._next_token, request))
        return answer

    def reply(self, token: int, response: Response) -> None:
        """Complete a peer's request with the core's response."""
        answer = self._waiting.pop(token, None)
        if answer is not None:
            answer.complete(response)

    def send(self, message: Outbound) -> None:
        """Send a request of the core, and pass its response or failure to the core."""

        def answered(deferred: Deferred[Response]) -> None:
            error = deferred.error
            if error is None:
                self._step(ResponseReceived(message.correlation, deferred.result()))
            else:
                self._step(ResponseReceived(message.correlation, None, unreachable=_is_refused_or_broken(error)))

        self._send(message).add_callback(answered)

    def close(self) -> None:
        """Fail the waiting requests with BROKER_NOT_AVAILABLE, because the node shuts down."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.fail(_shutting_down())


def _is_refused_or_broken(error: BaseException) -> bool:
    """Return whether a connection was refused or broke. A request that timed out on a working connection does not count."""
    return isinstance(error, ConnectionError) or (isinstance(error, KafkaError) and error.code is ErrorCode.NETWORK_EXCEPTION)


def _shutting_down() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down.")
