"""Channel to the controller, whose answers the test gives."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.schema import Message


class FakeChannel:
    """Collects what is sent; the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Message, Deferred[Message]]] = []

    def send(self, destination: int, api_key: int, request: Message, version: int, *, timeout_s: float = 30.0) -> Deferred[Message]:
        request.encode(version)
        self.sent.append((request, Deferred()))
        return self.sent[-1][1]

    def answer(self, response: Message) -> Message:
        request, deferred = self.sent.pop(0)
        deferred.complete(response)
        return request

    def fail(self) -> None:
        self.sent.pop(0)[1].fail(KafkaError(ErrorCode.NETWORK_EXCEPTION))
