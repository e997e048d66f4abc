"""Clients that tasks use one after the other: what is kept, what is closed, and that no task notices the one before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from interop.peers import OdradekBroker
from interop.waiting import until
from odradek.base.errors import ErrorCode, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, Consumer, KafkaError, NewTopic, Producer
from odradek.spark import batch
from odradek.spark.batch import read_range
from odradek.spark.options import ReadOptions, read_options
from odradek.spark.planning import open_consumer
from odradek.spark.ranges import DataLoss, OffsetRange
from odradek.spark.worker_clients import MOST_IDLE, Lease, WorkerClients
from tests.client.internals import engine_of
from tests.spark.without_spark import Topic, bootstrap, values

__all__ = ["bootstrap"]


class WorkerClientsWorld:
    """The clients of a worker, and those that were ever opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clients = WorkerClients()
        self.opened: list[Consumer] = []
        monkeypatch.setattr(batch, "worker_clients", self.clients)
        monkeypatch.setattr(batch, "open_consumer", self.open)

    def open(self, *arguments: Any, **more: Any) -> Consumer:
        self.opened.append(open_consumer(*arguments, **more))
        return self.opened[-1]

    def failing(self, monkeypatch: pytest.MonkeyPatch, consumer: Consumer, at: int) -> None:
        """Its call of next_chunk with that number, the first is 0, fails."""
        calls = iter(range(1000))
        sound = consumer.next_chunk

        def next_chunk(timeout_ms: int = 1000) -> object:
            if next(calls) == at:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "broken on purpose")
            return sound(timeout_ms)

        monkeypatch.setattr(consumer, "next_chunk", next_chunk)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerClientsWorld]:
    world = WorkerClientsWorld(monkeypatch)
    yield world
    world.clients.close()


@pytest.fixture
def name(own_name: str) -> str:
    return own_name


def options(topic: Topic, **more: str) -> ReadOptions:
    return read_options(topic.options(**more), streaming=False)


def is_closed(consumer: Consumer) -> bool:
    try:
        consumer.partitions_for("any")
    except OdradekError as error:
        return "closed" in str(error)
    return False


class TestReading:
    def test_one_client_reads_range_after_range_and_each_exactly(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 3)
        for partition in range(3):
            topic.fill(partition, 10)
        for start, end in ((0, 10), (3, 5), (9, 10), (0, 2), (2, 10)):
            for partition in range(3):
                found = values(read_range(options(topic), OffsetRange(topic[partition], start, end)))
                assert found == list(range(start, end))
        assert len(world.opened) == 1

    def test_nothing_is_asked_for_behind_a_range(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 2)
        topic.fill(0, 10)
        topic.fill(1, 10)
        # Longer than the test may take.
        slow = options(topic, **{"kafka.fetch.max.wait.ms": "600000", "kafka.request.timeout.ms": "700000"})
        for _ in range(5):
            for partition in (0, 1):
                # A Fetch at the end of the log would wait there, and the next range for it.
                assert len(values(read_range(slow, OffsetRange(topic[partition], 0, 10)))) == 10

    def test_a_client_that_was_not_read_to_the_end_is_closed(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        reading = read_range(options(topic)._replace(), OffsetRange(topic[0], 0, 20))
        next(reading)
        cast(Any, reading).close()
        assert world.clients.waiting == 0
        assert is_closed(world.opened[0])
        assert values(read_range(options(topic), OffsetRange(topic[0], 5, 7))) == [5, 6]
        assert len(world.opened) == 2

    def test_a_client_whose_task_failed_is_closed(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        topic.delete_before(0, 4)
        with pytest.raises(DataLoss):
            list(read_range(options(topic), OffsetRange(topic[0], 0, 10)))
        assert world.clients.waiting == 0
        assert is_closed(world.opened[0])

    def test_loss_is_seen_by_a_client_that_was_used_before(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        assert len(values(read_range(options(topic), OffsetRange(topic[0], 0, 10)))) == 10
        topic.delete_before(0, 4)
        lenient = options(topic, failOnDataLoss="false")
        assert values(read_range(lenient, OffsetRange(topic[0], 0, 10))) == [4, 5, 6, 7, 8, 9]
        with pytest.raises(DataLoss, match="offset 0 disappeared"):
            list(read_range(options(topic), OffsetRange(topic[0], 0, 10)))
        assert len(world.opened) == 1

    def test_a_client_that_was_used_before_is_replaced_when_it_fails(
        self, bootstrap: str, name: str, world: WorkerClientsWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)
        for _ in range(2):
            assert len(values(read_range(options(topic), OffsetRange(topic[0], 0, 10)))) == 10
        world.failing(monkeypatch, world.opened[0], at=0)
        assert values(read_range(options(topic), OffsetRange(topic[0], 3, 10))) == list(range(3, 10))
        assert len(world.opened) == 2
        assert is_closed(world.opened[0])

    def test_it_is_replaced_where_it_has_come_to(
        self, bootstrap: str, name: str, world: WorkerClientsWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = Topic(bootstrap, name, 1)
        for _ in range(6):
            topic.fill(0, 10)
        monkeypatch.setattr(batch, "FETCH_BYTES", 200)  # One batch an answer.
        wanted = values(read_range(options(topic), OffsetRange(topic[0], 0, 60)))
        assert wanted == list(range(10)) * 6
        world.failing(monkeypatch, world.opened[0], at=3)
        assert values(read_range(options(topic), OffsetRange(topic[0], 0, 60))) == wanted
        assert len(world.opened) == 2

    def test_a_client_that_is_new_is_believed(
        self, bootstrap: str, name: str, world: WorkerClientsWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 10)

        def open_failing(*arguments: Any, **more: Any) -> Consumer:
            world.failing(monkeypatch, consumer := world.open(*arguments, **more), at=0)
            return consumer

        monkeypatch.setattr(batch, "open_consumer", open_failing)
        with pytest.raises(KafkaError, match="broken on purpose"):
            list(read_range(options(topic), OffsetRange(topic[0], 0, 10)))
        assert len(world.opened) == 1

    def test_queries_with_other_settings_have_other_clients(self, bootstrap: str, name: str, world: WorkerClientsWorld) -> None:
        topic = Topic(bootstrap, name, 1)
        with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, b"1", partition=0)
            producer.flush()
            producer.abort_transaction()
        for isolation, wanted in (("read_uncommitted", [1]), ("read_committed", []), ("read_uncommitted", [1])):
            chosen = options(topic, **{"kafka.isolation.level": isolation})
            assert values(read_range(chosen, OffsetRange(topic[0], 0, 2))) == wanted
        assert len(world.opened) == 2

    def test_a_topic_made_anew_is_read_by_a_client_that_knew_the_old_one(
        self, bootstrap: str, name: str, world: WorkerClientsWorld
    ) -> None:
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 3)
        assert values(read_range(options(topic), OffsetRange(topic[0], 0, 3))) == [0, 1, 2]
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([name])
        topic = Topic(bootstrap, name, 1)
        topic.fill(0, 5)
        assert values(read_range(options(topic), OffsetRange(topic[0], 2, 5))) == [2, 3, 4]

    def test_a_broker_that_was_started_again_is_read_on(self, tmp_path: Path, name: str, world: WorkerClientsWorld) -> None:
        broker = OdradekBroker(tmp_path)
        broker.start()
        try:
            topic = Topic(broker.bootstrap, name, 1)
            topic.fill(0, 10)
            assert len(values(read_range(options(topic), OffsetRange(topic[0], 0, 10)))) == 10
            for _ in range(2):
                broker.kill()
                broker.start()
                assert values(read_range(options(topic), OffsetRange(topic[0], 4, 10))) == list(range(4, 10))
        finally:
            broker.stop()


class Stub:
    """What a pool asks of a consumer."""

    def __init__(self) -> None:
        self.at_rest = True
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Pool:
    """`WorkerClients` at a time of the test's, with stubs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clients = WorkerClients(idle_s=1000.0, clock=lambda: self.now)

    def take(self, key: str = "key", *, fresh: bool = False) -> Lease:
        return self.clients.take(key, lambda: cast(Consumer, Stub()), fresh=fresh)

    def back(self, key: str = "key") -> Stub:
        """A new one that is given back."""
        lease = self.take(key, fresh=True)
        self.clients.give_back(key, lease)
        return cast(Stub, lease.consumer)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.clients.close()


class TestKeeping:
    def test_what_comes_back_is_handed_out_again_once(self, pool: Pool) -> None:
        kept = pool.back()
        again = pool.take()
        assert (again.consumer, again.fresh) == (kept, False)
        other = pool.take()
        assert other.consumer is not kept
        assert other.fresh

    def test_the_last_that_came_back_is_the_next(self, pool: Pool) -> None:
        pool.back()
        last = pool.back()
        assert pool.take().consumer is cast(object, last)

    def test_a_new_one_may_be_wanted(self, pool: Pool) -> None:
        pool.back()
        assert pool.take(fresh=True).fresh
        assert pool.clients.waiting == 1

    def test_those_of_other_settings_are_left(self, pool: Pool) -> None:
        pool.back("one")
        assert pool.take("two").fresh
        assert not pool.take("one").fresh

    def test_what_is_not_at_rest_is_closed(self, pool: Pool) -> None:
        lease = pool.take()
        cast(Stub, lease.consumer).at_rest = False
        pool.clients.give_back("key", lease)
        assert cast(Stub, lease.consumer).closed
        assert pool.clients.waiting == 0

    def test_no_more_than_a_few_wait(self, pool: Pool) -> None:
        kept = [pool.back(str(number)) for number in range(MOST_IDLE + 2)]
        assert [each.closed for each in kept] == [True, True] + [False] * MOST_IDLE

    def test_who_waits_too_long_is_closed(self, pool: Pool) -> None:
        old = pool.back("old")
        pool.now = 600.0
        young = pool.back("young")
        pool.now = 999.0
        pool.clients.close_idle()
        assert not old.closed
        pool.now = 1000.0
        pool.clients.close_idle()
        assert (old.closed, young.closed) == (True, False)
        assert pool.clients.waiting == 1

    def test_a_timer_closes_them_without_anybody_asking(self) -> None:
        clients = WorkerClients(idle_s=0.05)
        kept = []
        for _ in range(2):  # The timer that has ended is followed by another.
            lease = clients.take("key", lambda: cast(Consumer, Stub()))
            clients.give_back("key", lease)
            kept.append(cast(Stub, lease.consumer))
            until(lambda: kept[-1].closed, "the timer", 30)

    def test_a_fork_begins_without_any(self, pool: Pool) -> None:
        pool.back()
        child = os.fork()
        if not child:
            os._exit(pool.clients.waiting + (0 if pool.take().fresh else 10))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.clients.waiting == 1


def test_errors_that_nobody_was_told_of_keep_a_client_from_the_next_task(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        assert consumer.at_rest
        consumer.assign_range(TopicPartition(name, 0), 0, 0)
        assert consumer.at_rest
        engine_of(consumer).fetcher.errors.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "of the task before"))
        assert not consumer.at_rest
