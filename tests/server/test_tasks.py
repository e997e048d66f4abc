"""What a broker's regular tasks do for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from odradek.base.deferred import Deferred
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.server.upkeep.jobs import Jobs
from odradek.server.upkeep.tasks import BrokerTasks
from tests.handlers.support import Broker, batch


class HeldJobs:
    """Jobs that run when the test says so."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], object], Deferred[object]]] = []

    def run(self, job: Callable[[], object]) -> Deferred[object]:
        self.held.append((job, Deferred()))
        return self.held[-1][1]

    def fail(self) -> None:
        self.held.pop(0)[1].fail(RuntimeError("cannot start a thread"))

    def finish(self) -> None:
        job, done = self.held.pop(0)
        done.complete(job())


def test_retention_comes_to_all_logs_however_many_turns_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.server.upkeep.tasks._RETENTION_SLICE", 2)
    broker = Broker()
    services = broker.services
    BrokerTasks(
        services.dynamic_config, broker.clock, cast(Jobs, HeldJobs()), broker.parts.log_manager, broker.manager, broker.parts.coordinators
    )
    broker.create_topic("t", partitions=5)
    logs = list(broker.parts.log_manager.logs)
    for log in logs:
        log.append_as_leader(memoryview(batch()), 0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        log.maybe_increment_log_start_offset(log.log_end_offset)
    broker.clock.advance_s(31)
    assert [len(log.segments) for log in logs] == [1] * 5


def test_retention_ends_with_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.server.upkeep.tasks._RETENTION_SLICE", 2)
    broker, seen = Broker(), list[int]()
    services, clock = broker.services, broker.clock
    tasks = BrokerTasks(
        services.dynamic_config, clock, cast(Jobs, HeldJobs()), broker.parts.log_manager, broker.manager, broker.parts.coordinators
    )

    def steps() -> Iterator[int]:
        for number in range(5):
            seen.append(number)
            if number == 1:
                # The next slice waits for its turn of the loop.
                clock.call_later(0, tasks.stop)
            yield number

    monkeypatch.setattr(broker.parts.log_manager, "cleanup_steps", steps)
    clock.advance_s(31)
    assert seen == [0, 1]


def test_logs_that_are_made_while_others_are_made_durable_come_next() -> None:
    broker, jobs = Broker(), HeldJobs()
    logs, clock = broker.parts.log_manager, broker.clock
    BrokerTasks(broker.services.dynamic_config, clock, cast(Jobs, jobs), logs, broker.manager, broker.parts.coordinators)
    for number, name in enumerate(("first", "second"), 1):
        broker.create_topic(name, number=number)
        clock.run_due()
        assert len(jobs.held) == 1, "one at a time"
    jobs.finish()
    assert logs.names
    clock.run_due()
    jobs.finish()
    assert not logs.names
    clock.run_due()
    assert jobs.held == []


def test_logs_are_made_durable_after_a_job_that_failed() -> None:
    broker, jobs = Broker(), HeldJobs()
    logs, clock = broker.parts.log_manager, broker.clock
    BrokerTasks(broker.services.dynamic_config, clock, cast(Jobs, jobs), logs, broker.manager, broker.parts.coordinators)
    for number, name in enumerate(("first", "second", "third"), 1):
        broker.create_topic(name, number=number)
        clock.run_due()
        assert len(jobs.held) == 1
        jobs.fail()
    broker.create_topic("fourth", number=4)
    clock.run_due()
    jobs.finish()
    assert not logs.names


def test_logs_are_flushed_as_often_as_the_topic_that_asks_for_most_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, jobs = Broker(), HeldJobs()
    clock, services = broker.clock, broker.services
    tasks = BrokerTasks(
        services.dynamic_config, clock, cast(Jobs, jobs), broker.parts.log_manager, broker.manager, broker.parts.coordinators
    )

    looked: list[float] = []
    monkeypatch.setattr(broker.parts.log_manager, "logs_to_flush", lambda: looked.append(clock.now_s) or [])

    def flushes(seconds: float) -> int:
        tasks.configured(services.metadata.image)
        before = len(looked)
        clock.advance_s(seconds)
        return len(looked) - before

    assert flushes(10) == 0
    for _ in range(2):
        first = broker.create_topic("slow", number=1, flush_ms="5000")
        assert flushes(20) == 4
        second = broker.create_topic("quick", number=2, flush_ms="1000")
        assert flushes(20) == 20
        broker.delete_topic(second)
        broker.apply(ConfigRecord(resource_type=2, resource_name="quick", name="flush.ms", value=None))
        assert flushes(20) == 4
        broker.delete_topic(first)
        broker.apply(ConfigRecord(resource_type=2, resource_name="slow", name="flush.ms", value=None))
        assert flushes(20) == 0
    broker.create_topic("quick", number=3, flush_ms="1000")
    broker.create_topic("slow", number=4, flush_ms="5000")
    assert flushes(20) == 20
    tasks.stop()
