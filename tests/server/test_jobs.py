"""Work that comes back at its interval."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.server.upkeep.jobs import Task
from tests.clock import ManualClock


def test_a_task_that_has_failed_runs_again_whether_it_failed_here_or_in_another_thread() -> None:
    clock = ManualClock()
    runs: list[float] = []

    def work() -> Deferred[None] | None:
        runs.append(clock.now_s)
        if len(runs) == 1:
            raise OSError("at once")
        return Deferred[None].failed(OSError("later")) if len(runs) == 2 else None

    task = Task("failing", 10, work, clock)
    clock.advance_s(40)
    assert runs == [10, 20, 30, 40]
    task.stop()
    clock.advance_s(40)
    assert len(runs) == 4


def test_a_task_that_is_stopped_while_it_runs_does_not_come_back() -> None:
    clock = ManualClock()
    runs: list[Deferred[None]] = []

    def work() -> Deferred[None]:
        runs.append(Deferred())
        return runs[-1]

    task = Task("slow", 10, work, clock)
    clock.advance_s(10)
    task.stop()
    runs[0].complete(None)
    clock.advance_s(100)
    assert len(runs) == 1


def test_runs_of_a_task_do_not_overlap() -> None:
    clock = ManualClock()
    runs: list[Deferred[None]] = []

    def work() -> Deferred[None]:
        runs.append(Deferred())
        return runs[-1]

    Task("slow", 10, work, clock, delay_s=1)
    clock.advance_s(100)
    assert len(runs) == 1
    runs[0].complete(None)
    clock.advance_s(9)
    assert len(runs) == 1
    clock.advance_s(1)
    assert len(runs) == 2
