"""What a broker's regular tasks do for one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from odradek.base.deferred import Deferred
from odradek.server.jobs import Jobs
from odradek.server.tasks import BrokerTasks
from tests.handlers.support import Broker


class HeldJobs:
    """Jobs that run when the test says so."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], object], Deferred[object]]] = []

    def run(self, job: Callable[[], object]) -> Deferred[object]:
        self.held.append((job, Deferred()))
        return self.held[-1][1]

    def finish(self) -> None:
        job, done = self.held.pop(0)
        done.complete(job())


def test_logs_that_are_made_while_others_are_made_durable_come_next() -> None:
    broker, jobs = Broker(), HeldJobs()
    logs, clock = broker.services.log_manager, broker.clock
    BrokerTasks(broker.services.dynamic_config, clock, cast(Jobs, jobs), logs, broker.manager, broker.services.coordinators)
    for number, name in enumerate(("first", "second"), 1):
        broker.create_topic(name, number=number)
        clock.run_due()
        assert len(jobs.held) == 1, "one at a time"
    jobs.finish()
    assert logs.has_new_names
    clock.run_due()
    jobs.finish()
    assert not logs.has_new_names
    clock.run_due()
    assert jobs.held == []
