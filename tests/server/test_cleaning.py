"""The cleaner in a broker: when it looks, how many logs it cleans at a time, what reconfiguring and stopping do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.server.upkeep.cleaning import LogCleaner
from odradek.server.upkeep.jobs import Jobs
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from odradek.testing.simulation.network import on_host
from tests.clock import ManualClock
from tests.loops import in_virtual_time
from tests.storage.compaction_support import Cleanery, latest
from tests.storage.support import PARTITION

T = TypeVar("T")


class HeldJobs:
    """Jobs that wait until the test runs them."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def run(self, job: Callable[[], T]) -> Deferred[T]:
        result: Deferred[T] = Deferred()
        self.waiting.append(lambda: result.complete(job()) and None)
        return result

    def one(self) -> None:
        self.waiting.pop(0)()

    def all(self) -> int:
        count = 0
        while self.waiting:
            self.one()
            count += 1
        return count


class Bench:
    """A cleaner over the log of a Cleanery."""

    def __init__(self, logs: int = 1, **settings: str) -> None:
        self.made = Cleanery()
        self.clock = ManualClock()
        self.jobs = HeldJobs()
        self.config = DynamicBrokerConfig(standalone_config({key.replace("_", "."): value for key, value in settings.items()}))
        for number in range(1, logs):
            self.made.logs.create_log(TopicPartition("more", number), None, self.made.config)
        for log in self.made.logs.logs:
            self.made.log = log
            for number in range(40):
                self.made.put((f"k{number % 3}", f"v{number}"))
        self.cleaner = LogCleaner(self.config, self.clock, cast(Jobs, self.jobs), self.made.disk, self.made.logs)
        self.cleaner.start()
        self.clock.run_due()

    def cleaned(self) -> int:
        manager = self.cleaner.manager
        return sum((manager.checkpoint_of(log) or 0) > 0 for log in self.made.logs.logs)


def test_it_cleans_what_is_dirty_and_then_looks_again_after_the_backoff() -> None:
    bench = Bench(log_cleaner_backoff_ms="700")
    before = latest(bench.made.records())
    assert bench.jobs.all() > 3
    assert bench.cleaned() == 1
    bench.clock.run_due()
    bench.jobs.all()
    assert read_offset_checkpoint(bench.made.disk, "/data/cleaner-offset-checkpoint")[PARTITION] > 0
    for number in range(40):
        bench.made.put((f"k{number % 3}", f"again{number}"))
    before = latest(bench.made.records())
    bench.clock.advance_ms(699)
    assert bench.jobs.waiting == []
    bench.clock.advance_ms(2)
    assert bench.jobs.all() > 3
    assert latest(bench.made.records()) == before
    assert bench.cleaner.manager.checkpoint_of(bench.made.log) == bench.made.log.active.base_offset


def test_as_many_cleanings_at_a_time_as_there_are_threads() -> None:
    bench = Bench(6, log_cleaner_threads="2")
    manager = bench.cleaner.manager
    assert len(manager.running) == 2
    bench.config.update({"log.cleaner.threads": "3"}, {})
    bench.clock.run_due()
    assert len(manager.running) == 3
    bench.config.update({"log.cleaner.threads": "1"}, {})
    under_way = list(manager.running)
    while bench.jobs.waiting or bench.cleaned() < 6:
        if bench.jobs.waiting:
            bench.jobs.one()
        bench.clock.run_due()
        assert len([plan for plan in manager.running if plan not in under_way]) <= 1
    assert bench.cleaned() == 6


def test_threads_that_were_taken_away_and_given_back_while_they_clean_are_all_at_work_again() -> None:
    bench = Bench(12, log_cleaner_threads="3")
    manager = bench.cleaner.manager
    assert len(manager.running) == 3
    for threads in ("1", "3", "2", "3"):
        bench.config.update({"log.cleaner.threads": threads}, {})
        bench.clock.run_due()
    most = 0
    retiring = list(manager.running)
    while bench.jobs.waiting or bench.cleaned() < 12:
        if bench.jobs.waiting:
            bench.jobs.one()
        bench.clock.run_due()
        most = max(most, len([plan for plan in manager.running if plan not in retiring]))
    assert most == 3


def test_the_throttle_slows_it_down_and_can_be_changed() -> None:
    bench = Bench(log_cleaner_io_max_bytes_per_second="1000")
    elapsed = 0.0
    while bench.cleaned() == 0 and elapsed < 60:
        bench.jobs.all()
        bench.clock.advance_ms(50)
        elapsed += 0.05
    assert 2 < elapsed < 20, "two passes over 3 kB, and what is written"
    bench = Bench(log_cleaner_io_max_bytes_per_second="1")
    bench.jobs.all()
    assert bench.cleaned() == 0
    bench.config.update({"log.cleaner.io.max.bytes.per.second": "1e9"}, {})
    bench.clock.advance_ms(10_000_000)
    bench.jobs.all()
    assert bench.cleaned() == 1


@pytest.mark.parametrize("steps", range(8))
def test_it_stops_at_any_moment(steps: int) -> None:
    bench = Bench(2, log_cleaner_threads="2")
    before = latest(bench.made.records())
    for _ in range(steps):
        bench.jobs.one()
    stopped = bench.cleaner.stop()
    assert not stopped.done
    bench.jobs.all()
    assert stopped.done
    assert bench.cleaner.stop() is stopped
    assert bench.cleaner.manager.running == []
    bench.clock.advance_ms(100_000)
    assert bench.jobs.waiting == []
    assert not [name for name in bench.made.names() if name.endswith((".cleaned", ".swap"))]
    assert latest(bench.made.records()) == before


def test_it_stops_at_once_when_there_is_nothing_to_do() -> None:
    bench = Bench()
    bench.jobs.all()
    bench.clock.run_due()
    bench.jobs.all()
    assert bench.cleaner.stop().done


def test_it_has_stopped_when_its_checkpoint_is_written() -> None:
    bench = Bench()
    while bench.cleaner.manager.running:
        bench.jobs.one()
    assert len(bench.jobs.waiting) == 1
    stopped = bench.cleaner.stop()
    assert not stopped.done, "the directory is still written to"
    bench.jobs.all()
    assert stopped.done
    assert read_offset_checkpoint(bench.made.disk, "/data/cleaner-offset-checkpoint")[PARTITION] > 0


def test_what_could_not_be_cleaned_for_want_of_memory_is_when_there_is_some() -> None:
    bench = Bench(log_cleaner_io_buffer_load_factor="0.00000001", log_cleaner_backoff_ms="700")
    assert bench.jobs.all() == 0
    bench.config.update({"log.cleaner.io.buffer.load.factor": "0.9"}, {})
    bench.clock.advance_ms(701)
    bench.jobs.all()
    assert bench.cleaned() == 1


def test_a_worker_goes_on_after_an_error_between_two_cleanings(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(2)
    failures = 0

    def fails() -> None:
        nonlocal failures
        failures += 1
        raise OSError("the disk is full")

    monkeypatch.setattr(bench.cleaner.manager, "delete_old_segments", fails)
    while bench.jobs.waiting:
        bench.jobs.one()
        bench.clock.run_due()
    assert failures >= 2
    assert bench.cleaned() == 2
    stopped = bench.cleaner.stop()
    bench.jobs.all()
    assert stopped.done


def test_stopping_does_not_wait_for_the_throttle() -> None:
    bench = Bench(log_cleaner_io_max_bytes_per_second="1")
    bench.jobs.all()
    stopped = bench.cleaner.stop()
    bench.jobs.all()
    assert stopped.done
    assert bench.cleaned() == 0


# -- in a whole broker ---------------------------------------------------------------------------------------------------------------

SETTINGS = {"log.cleaner.backoff.ms": "1000", "log.cleaner.min.cleanable.ratio": "0.1"}


async def _fill(loop: SimulatedLoop, broker: SimulatedBroker, rounds: int) -> None:
    with on_host("writer"):
        async with SimulatedProducer(SimulatedClock(loop), random.Random(1), bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(rounds):
                await (await producer.send("topic", b"v%d" % number * 200, key=b"k%d" % (number % 5), partition=0))


async def _read(loop: SimulatedLoop, broker: SimulatedBroker) -> list[tuple[int, bytes | None, bytes | None]]:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with on_host("reader"):
        async with SimulatedConsumer(SimulatedClock(loop), random.Random(2), **settings) as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            found: list[tuple[int, bytes | None, bytes | None]] = []
            while records := await consumer.poll(2000):
                found += [(record.offset, record.key, record.value) for record in records]
            return found


@pytest.mark.parametrize("enabled", [True, False])
@in_virtual_time
async def test_a_broker_compacts_unless_it_is_told_not_to(loop: SimulatedLoop, enabled: bool) -> None:
    broker = SimulatedBroker(loop, seed=1, settings={**SETTINGS, "log.cleaner.enable": str(enabled).lower()})
    await broker.start()
    with on_host("admin"):
        async with SimulatedAdmin(SimulatedClock(loop), random.Random(3), bootstrap_servers=broker.bootstrap_servers) as admin:
            config = {"cleanup.policy": "compact", "internal.segment.bytes": "5000"}
            await admin.create_topics([NewTopic("topic", 1, 1, configs=config)])
    await _fill(loop, broker, 60)
    await asyncio.sleep(5)
    records = await _read(loop, broker)
    assert (len(records) < 30) == enabled
    assert {key: value for _, key, value in records} == {b"k%d" % (number % 5): b"v%d" % number * 200 for number in range(55, 60)}
    broker.kill()
    await broker.start()
    assert await _read(loop, broker) == records
    await broker.stop()
