"""The exactly-once sink without Spark's JVM: tasks and drivers that end at the worst times, and what readers of committed records see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker  # noqa: E402
from interop.waiting import until  # noqa: E402
from odradek.base.errors import ErrorCode, KafkaError  # noqa: E402
from odradek.base.ids import TopicPartition  # noqa: E402
from odradek.client import Admin, AsyncProducer, Consumer, IllegalTransactionState, NewTopic, Producer, TransactionError  # noqa: E402
from odradek.client.admin.types.transactions import TransactionState  # noqa: E402
from odradek.spark import exactly_once  # noqa: E402
from odradek.spark.decisions import Sink, SinkConflict, TaskId  # noqa: E402
from odradek.spark.exactly_once import HalfWritten, PreparedRows  # noqa: E402
from odradek.spark.options import write_options  # noqa: E402
from odradek.spark.sink import Written, prepare_rows  # noqa: E402
from odradek.testing.kit.embedded import unique_name  # noqa: E402
from tests.client.conftest import CONFIG  # noqa: E402


@pytest.fixture(
    scope="module",
    params=[
        (OdradekBroker, 2),
        (OdradekBroker, 1),
        pytest.param((JvmBroker, 2), marks=pytest.mark.jvm),
        pytest.param((JvmBroker, 1), marks=pytest.mark.jvm),
    ],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
def bootstrap(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    kind, level = request.param
    broker: BrokerProcess = kind(tmp_path_factory.mktemp("broker"), CONFIG)
    broker.features["transaction.version"] = level
    broker.start()
    yield broker.bootstrap
    broker.stop()


class Query:
    """What Spark would do: tasks of batches, and a driver that commits or aborts them."""

    def __init__(self, bootstrap: str, run: str = "run-1", app_id: str | None = None, topic: str | None = None, **options: str) -> None:
        self.bootstrap = bootstrap
        self.run = run
        self.app_id = app_id or unique_name("app")
        self.topic = topic or unique_name("topic")
        self.given = options
        self.sink = Sink(self.app_id)
        self.options = write_options(
            {
                "kafka.bootstrap.servers": bootstrap,
                "topic": self.topic,
                "exactlyOnce": "true",
                "txnAppId": self.app_id,
                "kafka.transaction.timeout.ms": "60000",
                **options,
            },
            streaming=True,
        )
        if topic is None:
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.create_topics([NewTopic(self.topic, 2, 1)])

    def restarted(self) -> Query:
        """The query after the driver has ended: with the same checkpoint, in another run."""
        return Query(self.bootstrap, f"run-{int(self.run[-1]) + 1}", self.app_id, self.topic, **self.given).with_id(self.sink.query)

    def with_id(self, query_id: str) -> Query:
        """A query with an id of Spark's, as its checkpoint keeps it, and the same name."""
        other = Query(self.bootstrap, self.run, self.app_id, self.topic, **self.given)
        other.sink = Sink(self.app_id, query_id)
        return other

    def task(self, batch: int, partition: int = 0, *values: str, attempt: int = 0) -> Written:
        rows = pa.RecordBatch.from_pydict({"value": list(values or (f"{batch}.{partition}",))})
        return prepare_rows(self.options, self.sink, TaskId(self.run, batch, partition, attempt), iter([rows]))

    def tasks(self, batch: int, partitions: int = 3) -> list[PreparedRows]:
        return [prepared for number in range(partitions) if (prepared := self.task(batch, number).prepared) is not None]

    def commit(self, batch: int, prepared: list[PreparedRows]) -> None:
        exactly_once.commit(dict(self.options.client), self.sink, batch, prepared)

    def abort(self, batch: int, prepared: list[PreparedRows]) -> None:
        exactly_once.abort(dict(self.options.client), self.sink, batch, prepared)

    def seen(self) -> list[str]:
        """What a reader of committed records sees up to the first open transaction, sorted."""
        partitions = [TopicPartition(self.topic, number) for number in range(2)]
        ending = [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            # Markers are written after the coordinator has answered.
            until(lambda: not admin.list_transactions(states=ending), "all markers", 30)
        found: list[str] = []
        with Consumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            while any(consumer.position(each) < ends[each] for each in partitions):
                found += [record.value.decode() for record in consumer.poll(1000) if record.value is not None]
        return sorted(found)

    def open(self) -> list[str]:
        """The sink's open transactions."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            found = [each.transactional_id for each in admin.list_transactions(states=[TransactionState.ONGOING])]
        return [each for each in found if each.startswith(self.sink.owner)]


@pytest.fixture
def query(bootstrap: str) -> Query:
    return Query(bootstrap)


def batch_of(number: int) -> list[str]:
    return [f"{number}.{partition}" for partition in range(3)]


class Died(Exception):
    """The driver's end, in the middle of something."""


def decide_and_die(query: Query, prepared: list[PreparedRows] | None = None, batch: int = 0) -> None:
    """A driver that ends between its decision about a batch and what follows from it."""

    async def death(*_: object) -> None:
        raise Died

    found = query.tasks(batch) if prepared is None else prepared
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exactly_once, "_complete", death)
        with pytest.raises(Died):
            query.commit(batch, found)


def test_rows_are_seen_when_the_driver_has_committed_all_of_them(query: Query) -> None:
    prepared = query.tasks(0)
    assert query.seen() == []
    query.commit(0, prepared)
    assert query.seen() == batch_of(0)
    for number in range(1, 6):
        query.commit(number, query.tasks(number))
    assert query.seen() == [value for number in range(6) for value in batch_of(number)]
    assert query.open() == []


def test_a_batch_that_was_committed_is_not_written_again(query: Query) -> None:
    query.commit(0, query.tasks(0))
    again = query.restarted()
    again.commit(0, again.tasks(0))
    assert again.seen() == batch_of(0)
    assert again.open() == []
    again.commit(1, again.tasks(1))
    assert again.seen() == batch_of(0) + batch_of(1)


def test_a_query_with_a_new_checkpoint_or_an_older_one_is_a_conflict(query: Query) -> None:
    query.commit(5, query.tasks(5))
    for number in (4, 0):
        later = query.restarted()
        prepared = later.tasks(number)
        with pytest.raises(SinkConflict, match=rf"batch {number} of {query.app_id} is not written: the last batch is 5"):
            later.commit(number, prepared)
        assert query.open() == []
        later.abort(number, prepared)
    assert query.seen() == batch_of(5)
    query.commit(6, query.tasks(6))
    assert query.seen() == batch_of(5) + batch_of(6)


def test_two_queries_with_one_name_are_a_conflict_whatever_their_numbers(query: Query) -> None:
    one, other = query.with_id("one"), query.restarted().with_id("two")
    prepared = one.tasks(5)
    decide_and_die(one, prepared, 5)
    for number in (4, 5, 6):
        theirs = other.tasks(number)
        with pytest.raises(SinkConflict, match="this txnAppId belongs to query one, whose last batch is 5, and this is query two"):
            other.commit(number, theirs)
        other.abort(number, theirs)
        other.commit(number, [])
        assert sorted(query.open()) == sorted(each.transaction.transactional_id for each in prepared), "nobody else ends what one decided"
    again = other.restarted().with_id("one")
    again.commit(5, again.tasks(5))
    assert query.seen() == batch_of(5)
    assert query.open() == []
    again.commit(6, again.tasks(6))
    assert query.seen() == batch_of(5) + batch_of(6)


def test_what_a_driver_that_ended_before_its_decision_left_is_aborted(query: Query) -> None:
    query.commit(0, query.tasks(0))
    query.tasks(1)
    again = query.restarted()
    again.commit(1, again.tasks(1))
    assert again.seen() == batch_of(0) + batch_of(1)
    assert again.open() == []


def test_what_a_driver_that_ended_after_its_decision_left_is_committed(query: Query) -> None:
    decide_and_die(query)
    assert query.seen() == []
    again = query.restarted()
    again.commit(0, again.tasks(0))
    assert again.seen() == batch_of(0)
    assert again.open() == []


def test_what_a_driver_that_ended_while_it_decided_has_not_decided(query: Query) -> None:
    async def death(_: object) -> None:
        raise Died

    prepared = query.tasks(0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AsyncProducer, "commit_transaction", death)
        with pytest.raises(Died):
            query.commit(0, prepared)
    again = query.restarted()
    again.commit(0, again.tasks(0))
    assert again.seen() == batch_of(0)
    assert again.open() == []


def test_a_decision_is_completed_also_when_the_batch_has_no_rows_any_more(query: Query) -> None:
    decide_and_die(query)
    query.restarted().commit(0, [])
    assert query.seen() == batch_of(0)


def test_a_decision_is_completed_by_the_next_batch(query: Query) -> None:
    decide_and_die(query)
    again = query.restarted()
    again.commit(1, again.tasks(1))
    assert again.seen() == batch_of(0) + batch_of(1)


def test_aborting_after_the_decision_completes_it(query: Query) -> None:
    prepared = query.tasks(0)
    decide_and_die(query, prepared)
    query.abort(0, prepared)
    assert query.seen() == batch_of(0)
    assert query.open() == []


def test_aborting_before_the_decision_takes_all_back(query: Query) -> None:
    query.abort(0, query.tasks(0))
    assert query.open() == []
    query.commit(0, query.tasks(0))
    assert query.seen() == batch_of(0)


def test_aborting_one_batch_does_not_touch_the_one_before(query: Query) -> None:
    query.commit(0, query.tasks(0))
    query.abort(1, query.tasks(1))
    assert query.seen() == batch_of(0)
    assert query.open() == []


def test_an_old_driver_that_wakes_up_after_the_new_one_has_committed_changes_nothing(query: Query) -> None:
    old = query.tasks(0)
    again = query.restarted()
    again.commit(0, again.tasks(0))
    query.commit(0, old)
    assert query.seen() == batch_of(0)
    assert query.open() == []


def test_an_old_driver_that_commits_first_makes_the_new_one_take_its_own_back(query: Query) -> None:
    old = query.tasks(0)
    again = query.restarted()
    new = again.tasks(0)
    query.commit(0, old)
    again.commit(0, new)
    assert query.seen() == batch_of(0)
    assert query.open() == []


def test_an_old_driver_decides_nothing_once_the_new_one_has_begun(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    again = query.restarted()
    check = exactly_once._check_open

    async def meanwhile(*arguments: Any) -> None:
        await check(*arguments)
        monkeypatch.setattr(exactly_once, "_check_open", check)
        prepared = await asyncio.to_thread(again.tasks, 0)
        await asyncio.to_thread(again.commit, 0, prepared)

    monkeypatch.setattr(exactly_once, "_check_open", meanwhile)
    old = query.tasks(0)
    with pytest.raises(TransactionError) as raised:
        query.commit(0, old)
    assert raised.value.code is ErrorCode.PRODUCER_FENCED
    query.abort(0, old)
    assert query.seen() == batch_of(0)
    assert query.open() == []


def test_a_transaction_that_has_ended_too_early_fails_the_batch_before_the_decision(query: Query) -> None:
    prepared = query.tasks(0)
    with Admin(bootstrap_servers=query.bootstrap) as admin:
        admin.force_terminate_transaction(prepared[1].transaction.transactional_id)
    with pytest.raises(KafkaError, match=r"nothing of batch 0 .* is written: .*kafka\.transaction\.timeout\.ms must be longer"):
        query.commit(0, prepared)
    query.abort(0, prepared)
    assert query.seen() == []
    query.commit(0, query.tasks(0))
    assert query.seen() == batch_of(0)


def test_a_transaction_of_another_epoch_is_not_taken_for_that_of_the_task(query: Query) -> None:
    prepared = query.tasks(0)
    query.task(0, 1)  # The same attempt once more: the first one's transaction is aborted.
    with pytest.raises(KafkaError, match="nothing of batch 0"):
        query.commit(0, prepared)


def test_transactions_that_were_aborted_after_the_decision_are_reported(query: Query) -> None:
    prepared = query.tasks(0)
    decide_and_die(query, prepared)
    with Admin(bootstrap_servers=query.bootstrap) as admin:
        admin.force_terminate_transaction(prepared[1].transaction.transactional_id)
    again = query.restarted()
    with pytest.raises(HalfWritten, match=r"batch 0 of .* was decided, but 1 of its 3 transactions"):
        again.commit(0, again.tasks(0))
    assert query.seen() == ["0.0", "0.2"]
    assert query.open() == []


def test_an_attempt_that_fails_leaves_nothing_open(query: Query) -> None:
    def rows() -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"value": ["a"]})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        prepare_rows(query.options, query.sink, TaskId("run-1", 0, 0, 0), rows())
    assert query.open() == []
    second = query.task(0, 0, "a", attempt=1).prepared
    assert second is not None
    query.commit(0, [second])
    assert query.seen() == ["a"]


def test_attempts_that_were_killed_are_aborted_and_those_of_other_sinks_are_not(query: Query) -> None:
    other = Query(query.bootstrap, app_id=f"{query.app_id}-2", topic=query.topic)
    others = other.tasks(0)
    killed = query.task(0, 0).prepared
    winner = query.task(0, 0, attempt=1).prepared
    assert killed is not None
    assert winner is not None
    query.commit(0, [winner])
    assert sorted(query.open()) == sorted(each.transaction.transactional_id for each in others)
    other.commit(0, others)
    assert query.seen() == sorted(["0.0", *batch_of(0)])


def test_a_task_without_rows_opens_nothing(query: Query) -> None:
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})
    written = prepare_rows(query.options, query.sink, TaskId("run-1", 0, 0, 0), iter([empty, empty]))
    assert (written.rows, written.app_id, written.prepared) == (0, query.app_id, None)
    query.commit(0, [])
    later = prepare_rows(query.options, query.sink, TaskId("run-1", 1, 0, 0), iter([empty, pa.RecordBatch.from_pydict({"value": ["a"]})]))
    assert later.prepared is not None
    query.commit(1, [later.prepared])
    assert query.seen() == ["a"]


def test_a_decision_may_have_more_transactions_than_one_group_can_hold(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.spark.decisions._CHUNK_BYTES", 60)
    decide_and_die(query)
    with Admin(bootstrap_servers=query.bootstrap) as admin:
        groups = [query.sink.group(number) for number in range(3)]
        assert [len(offsets) for offsets in admin.list_consumer_group_offsets(groups).values()] == [1, 1, 1]
    again = query.restarted()
    again.commit(0, again.tasks(0))
    assert again.seen() == batch_of(0)


def test_a_part_of_a_decision_that_is_lost_is_an_error(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.spark.decisions._CHUNK_BYTES", 60)
    query.commit(0, query.tasks(0))
    with Admin(bootstrap_servers=query.bootstrap) as admin:
        admin.delete_consumer_groups([query.sink.group(1)])
    with pytest.raises(KafkaError, match="has lost its part of batch 0"):
        query.commit(1, query.tasks(1))


def test_decisions_move_with_the_topic(query: Query) -> None:
    query.commit(0, query.tasks(0))
    moved = Query(query.bootstrap, "run-2", query.app_id)
    moved.commit(1, moved.tasks(1))
    with pytest.raises(SinkConflict):
        moved.commit(0, moved.tasks(0))
    query.commit(1, query.tasks(1))
    assert (query.seen(), moved.seen()) == (batch_of(0), batch_of(1))


def test_records_that_are_refused_fail_the_task(query: Query) -> None:
    with pytest.raises(KafkaError, match=r"max\.request\.size"):
        query.task(0, 0, "x" * 2_000_000)
    assert query.open() == []


def test_a_prepared_transaction_is_ended_by_whoever_has_it(bootstrap: str, query: Query) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number, commit in enumerate((True, False)):
            with Producer(bootstrap_servers=bootstrap, transactional_id=f"{query.app_id}-{number}") as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send(query.topic, f"{commit}", partition=0)
                prepared = producer.prepare_transaction()
                assert prepared is not None
            assert query.seen() == ([] if commit else ["True"])
            for _ in range(2):  # Twice is as good as once.
                admin.end_transactions([prepared], commit=commit)
            assert admin.try_end_transactions([prepared], commit=not commit)[prepared] is not None
    assert query.seen() == ["True"]


def test_nothing_can_be_done_with_a_producer_that_has_prepared(bootstrap: str, query: Query) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=query.app_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        assert producer.prepare_transaction() is None  # Nothing is in it.
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send(query.topic, "x"),
        ):
            with pytest.raises(IllegalTransactionState, match="an external coordinator ends it"):
                call()
