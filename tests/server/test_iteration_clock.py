"""Steps that follow from one another share a turn of the loop, in their order, and do not keep it for ever."""

from __future__ import annotations

import pytest

from odradek.server.cluster.iteration_clock import IterationClock
from tests.clock import ManualClock


@pytest.fixture
def loop() -> ManualClock:
    return ManualClock()


def test_what_follows_comes_in_the_same_turn_after_what_was_there(loop: ManualClock) -> None:
    clock, seen = IterationClock(loop), []

    def first(name: str) -> None:
        seen.append(name)
        clock.call_later(0, seen.append, f"after {name}")

    clock.call_later(0, first, "a")
    clock.call_later(-1, first, "b")
    assert seen == []
    loop.turn()
    assert seen == ["a", "b", "after a", "after b"]
    clock.call_later(0, seen.append, "the next turn")
    loop.turn()
    assert seen[4:] == ["the next turn"]


def test_a_step_may_be_cancelled_and_cancelled_again(loop: ManualClock) -> None:
    clock, seen = IterationClock(loop), []
    steps = [clock.call_later(0, seen.append, number) for number in range(3)]
    steps[1].cancel()
    loop.turn()
    steps[1].cancel()
    steps[2].cancel()
    assert seen == [0, 2]


def test_delays_and_times_are_the_clock_s(loop: ManualClock) -> None:
    clock, seen = IterationClock(loop), []
    clock.call_later(0.5, seen.append, "late")
    loop.advance_ms(499)
    assert seen == []
    loop.advance_ms(1)
    assert seen == ["late"]
    assert (clock.time_ms(), clock.monotonic()) == (loop.time_ms(), loop.monotonic())


def test_what_goes_round_in_circles_lets_the_loop_go_on(loop: ManualClock) -> None:
    clock, count = IterationClock(loop), [0]

    def again() -> None:
        count[0] += 1
        clock.call_later(0, again)

    clock.call_later(0, again)
    loop.turn()
    assert 1 < count[0] < 100
    before = count[0]
    loop.turn()
    assert count[0] > before


def test_an_error_is_the_loop_s_and_the_others_have_their_turn(loop: ManualClock) -> None:
    clock, seen = IterationClock(loop), []
    clock.call_later(0, [].pop)
    clock.call_later(0, seen.append, "unharmed")
    with pytest.raises(IndexError):
        loop.turn()
    loop.turn()
    assert seen == ["unharmed"]
    clock.call_later(0, seen.append, "later")
    loop.turn()
    assert seen == ["unharmed", "later"]
