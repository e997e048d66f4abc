"""Requests of peers that wait for the core's answer, and the core's own requests to peers."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.consensus.messages import Event, Outbound, Request, RequestReceived, Response, ResponseReceived


class Exchange:
    """The core knows a peer's request by its token, and its own by their correlations; here is who stands behind them."""

    __slots__ = ("_closed", "_next_token", "_send", "_step", "_waiting")

    def __init__(self, step: Callable[[Event], None], send: Callable[[Outbound], Deferred[Response]]) -> None:
        """`step` hands an event to the core, `send` a message to its destination."""
        self._step = step
        self._send = send
        self._waiting: dict[int, Deferred[Response]] = {}
        self._next_token = 0
        self._closed = False

    def receive(self, request: Request) -> Deferred[Response]:
        """A peer's request. The answer fails with BROKER_NOT_AVAILABLE when the node stops first."""
        answer: Deferred[Response] = Deferred()
        if self._closed:
            answer.fail(_shutting_down())
            return answer
        self._next_token += 1
        self._waiting[self._next_token] = answer
        self._step(RequestReceived(self._next_token, request))
        return answer

    def reply(self, token: int, response: Response) -> None:
        """The core has decided what to answer."""
        answer = self._waiting.pop(token, None)
        if answer is not None:
            answer.complete(response)

    def send(self, message: Outbound) -> None:
        """Sends a request of the core's, and tells it of the answer, or that there will be none."""

        def answered(deferred: Deferred[Response]) -> None:
            error = deferred.error
            if error is None:
                self._step(ResponseReceived(message.correlation, deferred.result()))
            else:
                self._step(ResponseReceived(message.correlation, None, unreachable=_says_that_nobody_is_there(error)))

        self._send(message).add_callback(answered)

    def close(self) -> None:
        """Whoever still waits is told that the node shuts down."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.fail(_shutting_down())


def _says_that_nobody_is_there(error: BaseException) -> bool:
    """A connection that was refused or broke, and not the silence of one that lasts."""
    return isinstance(error, ConnectionError) or (isinstance(error, KafkaError) and error.code is ErrorCode.NETWORK_EXCEPTION)


def _shutting_down() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down.")
