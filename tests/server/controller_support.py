"""Requests to a controller that changes."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.network.peers import Address
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.schema import Message
from odradek.server.cluster.controller_requests import ControllerRequests
from tests.clock import ManualClock

FIRST, SECOND = Address(1, "one", 9093), Address(2, "two", 9093)


BEAT = BrokerHeartbeatRequest(broker_id=3)


OK = BrokerHeartbeatResponse()


NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


class ControllerRequestsWorld:
    def __init__(self, controller: Address | None = FIRST) -> None:
        self.clock = ManualClock()
        self.controller = controller
        self.sent: list[tuple[Address, float, Deferred[Message]]] = []
        """(to whom, time limit, the answer) of each attempt."""
        self.requests = ControllerRequests(self.clock, lambda: self.controller, self._send, attempt_timeout_s=30)

    def _send(self, controller: Address, request: Message, version: int, timeout_s: float) -> Deferred[Message]:
        assert (request, version) == (BEAT, 1)
        self.sent.append((controller, timeout_s, Deferred()))
        return self.sent[-1][2]

    def send(self, timeout_s: float = 60.0) -> Deferred[Message]:
        return self.requests.send(BEAT, 1, timeout_s)

    def elect(self, controller: Address | None) -> None:
        self.controller = controller
        self.requests.controller_changed()

    @property
    def asked(self) -> list[Address]:
        return [controller for controller, _, _ in self.sent]

    def fail(self, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> None:
        self.sent[-1][2].fail(KafkaError(code, "made to fail"))


def code(deferred: Deferred[Message]) -> ErrorCode:
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code
