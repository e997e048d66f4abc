"""Who is fenced when a heartbeat connection ends, and who is not."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.server.disconnects import HeartbeatConnections
from tests.clock import ManualClock


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fenced: list[tuple[int, int]] = []
        self.connections = HeartbeatConnections(self.clock, self._fence, 1.0, 2.0)

    def _fence(self, broker_id: int, broker_epoch: int) -> Deferred[bool]:
        self.fenced.append((broker_id, broker_epoch))
        if broker_id == 9:
            return Deferred.failed(KafkaError(ErrorCode.NOT_CONTROLLER))
        return Deferred.of(True)


def test_a_broker_is_fenced_a_second_after_its_connection_ended() -> None:
    world = World()
    world.connections.heard(1, 5, "a")
    world.connections.heard(2, 6, "b")
    world.clock.advance_s(1.9)
    world.connections.disconnected("a")
    world.clock.advance_s(0.9)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]
    world.connections.disconnected("a")
    world.clock.advance_s(10)
    assert world.fenced == [(1, 5)]


def test_nobody_is_fenced_before_the_next_heartbeat_is_overdue() -> None:
    """A broker that is well may notice with its next heartbeat only that the connection has ended."""
    world = World()
    world.connections.heard(1, 5, "a")
    world.clock.advance_s(0.1)
    world.connections.disconnected("a")
    world.clock.advance_s(2.3)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


def test_who_comes_back_in_time_is_not() -> None:
    world = World()
    world.connections.heard(1, 5, "a")
    world.connections.disconnected("a")
    world.clock.advance_s(0.9)
    world.connections.heard(1, 5, "b")
    world.clock.advance_s(10)
    assert world.fenced == []


def test_the_end_of_a_connection_that_is_no_longer_used_means_nothing() -> None:
    world = World()
    world.connections.heard(1, 5, "a")
    world.connections.heard(1, 5, "b")
    world.connections.disconnected("a")
    world.connections.disconnected("of somebody else")
    world.clock.advance_s(10)
    assert world.fenced == []
    world.connections.disconnected("b")
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 5)]


def test_a_life_that_beat_after_the_other_is_the_one_that_counts() -> None:
    world = World()
    world.connections.heard(1, 5, "a")
    world.connections.heard(1, 8, "b")
    world.connections.disconnected("b")
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 8)]


def test_who_is_no_controller_any_more_cannot_fence_and_a_closed_one_does_not() -> None:
    world = World()
    world.connections.heard(9, 5, "a")
    world.connections.heard(1, 5, "b")
    world.connections.disconnected("a")
    world.clock.advance_s(2.6)
    assert world.fenced == [(9, 5)]
    world.connections.disconnected("b")
    world.connections.close()
    world.clock.advance_s(10)
    assert world.fenced == [(9, 5)]
