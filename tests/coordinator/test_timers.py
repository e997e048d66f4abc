"""Timers of a shard on a clock that is turned by hand: a loop that stood still reads before it expires."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Expire, Timers
from tests.clock import ManualClock


class Turns:
    """Timers, and how often which of them expired. A stall is time that passes without a timer being run."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock, self._write)
        self.expired: list[str] = []
        self.succeed = True

    def _write(self, expire: Expire, done: Callable[[bool], object]) -> None:
        expire()
        done(self.succeed)

    def schedule(self, key: str, delay_ms: float) -> None:
        def expire() -> CoordinatorResult[None]:
            self.expired.append(key)
            return CoordinatorResult([], None)

        self.timers.schedule(key, delay_ms, expire)

    def stall(self, seconds: float) -> None:
        self.clock.stall_s(seconds)

    def turn(self) -> None:
        """What is due now, and not what that schedules for the next turn."""
        self.clock.turn()


def test_a_timer_expires_when_it_is_due() -> None:
    turns = Turns()
    turns.schedule("a", 2_000)
    turns.clock.advance_s(1.999)
    assert turns.expired == []
    turns.clock.advance_s(0.001)
    assert turns.expired == ["a"]
    assert "a" not in turns.timers


def test_a_loop_that_is_a_little_late_expires_at_once() -> None:
    turns = Turns()
    turns.schedule("a", 2_000)
    turns.stall(2.04)
    turns.turn()
    assert turns.expired == ["a"]


@pytest.mark.parametrize("read_in", [1, 2, 3])
def test_what_waited_unread_is_heard_before_a_late_timer_expires(read_in: int) -> None:
    turns = Turns()
    turns.schedule("session", 2_000)
    turns.schedule("gone", 2_000)
    turns.stall(60)
    for _ in range(read_in):
        turns.turn()
    assert turns.expired == []
    turns.schedule("session", 2_000)  # the heartbeat that had arrived in time
    turns.clock.advance_s(1.999)
    assert turns.expired == ["gone"]
    turns.clock.advance_s(0.001)
    assert turns.expired == ["gone", "session"]


def test_a_late_timer_can_be_cancelled_while_it_waits() -> None:
    turns = Turns()
    turns.schedule("a", 2_000)
    turns.stall(3)
    turns.turn()
    assert "a" in turns.timers
    turns.timers.cancel("a")
    turns.schedule("b", 1_000)
    turns.stall(3)
    turns.turn()
    turns.timers.close()
    turns.clock.advance_s(10)
    assert turns.expired == []


def test_it_is_put_off_once_however_slow_the_turns_are() -> None:
    turns = Turns()
    turns.schedule("a", 2_000)
    count = 0
    while not turns.expired:
        turns.stall(30)
        turns.turn()
        count += 1
    assert 2 <= count <= 6


def test_an_append_that_fails_is_tried_again_after_a_stall_too() -> None:
    turns = Turns()
    turns.succeed = False
    turns.schedule("a", 2_000)
    turns.stall(60)
    turns.clock.run_due()
    assert turns.expired == ["a"]
    turns.succeed = True
    turns.clock.advance_s(0.5)
    assert turns.expired == ["a", "a"]
    turns.clock.advance_s(10)
    assert turns.expired == ["a", "a"]


def test_a_retry_does_not_replace_what_was_scheduled_since() -> None:
    turns = Turns()
    turns.succeed = False

    def expire() -> CoordinatorResult[None]:
        turns.schedule("a", 10_000)
        return CoordinatorResult([], None)

    turns.timers.schedule("a", 1_000, expire)
    turns.clock.advance_s(9)
    assert turns.expired == []
    turns.succeed = True
    turns.clock.advance_s(3)
    assert turns.expired == ["a"]


def test_after_close_nothing_is_scheduled() -> None:
    turns = Turns()
    turns.timers.close()
    turns.schedule("a", 1_000)
    assert turns.clock.pending == []
