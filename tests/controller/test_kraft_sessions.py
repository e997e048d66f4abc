"""Sessions of brokers when the controller itself stood still, or is slow to work off what waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.config.broker import standalone_config
from odradek.controller.kraft.periodic import PeriodicTasks
from tests.clock import ManualClock
from tests.controller.harness import Controller

SESSION_S = 9.0


class SessionsWorld:
    """A controller's core whose operations run when they are submitted, or when the test lets them (`held`)."""

    def __init__(self) -> None:
        self.clock = ManualClock(now_s=1000.0)
        self.controller = Controller()
        self.held: list[Callable[[], object]] | None = None
        self.controller.join(1, 2, 3)
        self.tasks = PeriodicTasks(standalone_config({"auto.leader.rebalance.enable": "false"}), self.clock, self.submit)
        self.tasks.start()
        self.watch()

    def watch(self) -> None:
        self.tasks.watch_heartbeats(self.controller.core.context.heartbeats)

    def submit(self, operation: Callable[[Any], Any], name: str) -> Deferred[object]:
        done: Deferred[object] = Deferred()

        def run() -> None:
            self.controller.now_s = self.clock.now_s
            done.complete(self.controller.run(operation))
            self.watch()

        if self.held is None:
            run()
        else:
            self.held.append(run)
        return done

    def heard_of(self, *broker_ids: int) -> None:
        """As the loop reads what waits in their sockets."""
        for broker_id in broker_ids:
            self.submit(lambda _, broker_id=broker_id: _Answer(self.controller.heartbeat(broker_id)), "heartbeat")  # type: ignore[misc]

    def beat_for(self, seconds: int, *broker_ids: int) -> None:
        for _ in range(seconds):
            self.clock.advance_s(1)
            self.heard_of(*broker_ids)

    @property
    def fenced(self) -> list[int]:
        return [broker_id for broker_id, broker in self.controller.core.state.brokers.items() if broker.fenced]


class _Answer:
    """The result of an operation that has written its records itself."""

    records: tuple[()] = ()

    def __init__(self, response: object) -> None:
        self.response = response


@pytest.fixture
def world() -> SessionsWorld:
    return SessionsWorld()


def test_silent_brokers_are_fenced_when_their_session_is_over(world: SessionsWorld) -> None:
    world.beat_for(8, 1, 2)
    assert world.fenced == []
    world.beat_for(2, 1, 2)
    assert world.fenced == [3]


def test_nobody_is_fenced_for_a_time_in_which_the_controller_stood_still(world: SessionsWorld) -> None:
    world.clock.stall_s(60)
    for _ in range(3):
        world.clock.turn()
    world.heard_of(1, 2)
    for _ in range(10):
        world.clock.turn()
    assert world.fenced == []
    # Broker 3 has died meanwhile, and another cannot reconnect at once: both have what was left of their sessions.
    world.beat_for(8, 1)
    world.heard_of(2)
    assert world.fenced == []
    world.beat_for(2, 1, 2)
    assert world.fenced == [3]


def test_what_waits_in_sockets_when_a_session_ends_counts(world: SessionsWorld) -> None:
    """The loop was busy up to the very moment, and runs its timers before it reads."""
    for _ in range(2):
        world.clock.stall_s(SESSION_S + 0.01)
        for _ in range(3):
            world.clock.turn()
            assert not {1, 2} & {*world.fenced}
        world.heard_of(1, 2)
        for _ in range(10):
            world.clock.turn()
        assert world.fenced == [3]


def test_a_heartbeat_that_waits_behind_the_question_counts(world: SessionsWorld) -> None:
    """The queue is held up by a slow disk: brokers went on in time, but nobody has noted it yet."""
    world.beat_for(8, 3)
    world.held = held = []
    world.clock.advance_s(0.9)
    world.heard_of(1, 2)
    world.clock.advance_s(30)
    world.held = None
    for run in held:
        run()
    assert world.fenced == []


def test_time_that_nobody_lost_is_not_given(world: SessionsWorld) -> None:
    world.beat_for(5, 1, 2, 3)
    heartbeats = world.controller.core.context.heartbeats
    heartbeats.stood_still(60, world.clock.now_s)
    assert heartbeats.next_check_s() == world.clock.now_s + SESSION_S


def test_a_controller_that_is_late_again_and_again_does_not_keep_the_dead_alive(world: SessionsWorld) -> None:
    heartbeats = world.controller.core.context.heartbeats
    for _ in range(20):
        due_s = heartbeats.next_check_s()
        assert due_s is not None
        world.clock.advance_s(max(due_s - world.clock.now_s - 0.01, 0))
        world.heard_of(1, 2)
        world.clock.stall_s(0.2)
        world.clock.run_due()
    assert world.fenced == [3]
