"""Heartbeat connections, whose fencing the test lets happen."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.server.cluster.disconnects import HeartbeatConnections
from tests.clock import ManualClock


class DisconnectsWorld:
    """Asks the controller at once whether to fence, or when the test lets it (`held`)."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fenced: list[tuple[int, int]] = []
        self.held: list[Callable[[], None]] | None = None
        self.looked_for: list[tuple[int, Deferred[bool]]] = []
        self.connections = HeartbeatConnections(self.clock, self._fence, self._nobody_listens, 1.0, 2.0)

    def _nobody_listens(self, broker_id: int) -> Deferred[bool]:
        answer: Deferred[bool] = Deferred()
        self.looked_for.append((broker_id, answer))
        return answer

    def beat(self, broker_id: int, broker_epoch: int, connection_id: str) -> None:
        self.connections.arrived(connection_id)
        self.connections.heard(broker_id, broker_epoch, connection_id)

    def _fence(self, broker_id: int, broker_epoch: int, is_back: Callable[[], bool]) -> Deferred[bool]:
        done: Deferred[bool] = Deferred()

        def run() -> None:
            if is_back():
                done.complete(False)
                return
            self.fenced.append((broker_id, broker_epoch))
            if broker_id == 9:
                done.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
            else:
                done.complete(True)

        if self.held is None:
            run()
        else:
            self.held.append(run)
        return done
