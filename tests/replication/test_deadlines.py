"""Many deadlines hold by one timer, and those that nobody needs any more are not kept."""

from __future__ import annotations

import random
from functools import partial

from odradek.replication.deadlines import Deadline, Deadlines
from tests.clock import ManualClock


def test_each_holds_at_its_time_and_in_the_order_of_time() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    passed: list[tuple[str, float]] = []
    for name, timeout_s in (("late", 3.0), ("soon", 1.0), ("also soon", 1.0), ("between", 2.0)):
        deadlines.add(timeout_s, lambda name=name: passed.append((name, clock.monotonic())))
    assert len(clock.pending) == 1, "one timer for all of them"
    clock.advance_s(0.9)
    assert passed == []
    clock.advance_s(3)
    assert passed == [("soon", 1.0), ("also soon", 1.0), ("between", 2.0), ("late", 3.0)]
    assert (len(deadlines), clock.pending) == (0, [])


def test_a_cancelled_one_does_not_hold_and_does_not_hold_up_the_next() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    passed: list[str] = []
    first = deadlines.add(1.0, lambda: passed.append("first"))
    deadlines.add(2.0, lambda: passed.append("second"))
    deadlines.cancel(first)
    deadlines.cancel(first)
    clock.advance_s(1.5)
    assert passed == []
    clock.advance_s(0.5)
    assert passed == ["second"]


def test_one_that_is_answered_out_of_time_does_not_keep_the_others_waiting() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    passed: list[str] = []

    def broken() -> None:
        raise ValueError("cannot be answered")

    deadlines.add(1.0, broken)
    deadlines.add(1.0, lambda: passed.append("second"))
    clock.advance_s(1.0)
    assert passed == ["second"]


def test_those_that_are_cancelled_are_swept_out() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    for _ in range(10_000):
        deadlines.cancel(deadlines.add(30.0, lambda: None))
        assert len(deadlines) <= 129
    assert len(clock.pending) == 1, "setting one costs no timer where an earlier one is set"


def test_after_close_nothing_is_called() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    passed: list[str] = []
    deadlines.add(1.0, lambda: passed.append("first"))
    deadlines.close()
    assert clock.pending == []
    clock.advance_s(2.0)
    assert passed == []
    deadlines.add(1.0, lambda: passed.append("second"))
    clock.advance_s(1.0)
    assert passed == ["second"]


def test_any_mixture_passes_exactly_those_that_were_left() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        clock = ManualClock()
        deadlines = Deadlines(clock)
        left: dict[int, tuple[float, Deadline]] = {}
        passed: list[int] = []

        def pass_(number: int, passed: list[int] = passed) -> None:
            passed.append(number)

        for number in range(400):
            if rng.random() < 0.5 and left:
                _, deadline = left.pop(rng.choice(list(left)))
                deadlines.cancel(deadline)
            else:
                timeout_s = rng.choice((0.5, 5.0, rng.random() * 10))
                left[number] = (clock.monotonic() + timeout_s, deadlines.add(timeout_s, partial(pass_, number)))
            if rng.random() < 0.3:
                clock.advance_s(rng.random())
                due = {each for each, (at_s, _) in left.items() if at_s <= clock.monotonic() + 0.001}
                assert set(passed) <= due, seed
                assert {each for each in due if left[each][0] <= clock.monotonic()} <= set(passed), seed
                for each in passed:
                    del left[each]
                passed.clear()
