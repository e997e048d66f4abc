"""Transactions against a broker: what is committed is read, what is aborted is not, offsets go with it, and who was replaced is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.base.errors import ErrorCode
from odradek.client import (
    Admin,
    AsyncProducer,
    Consumer,
    IllegalTransactionState,
    Producer,
    TopicPartition,
    TransactionError,
)
from odradek.client.types import ConfigChange, ConfigResource, ConsumerGroupMetadata
from odradek.testing.kit.embedded import unique_name
from tests.client.conftest import CONFIG


def committed(bootstrap: str, topic: str, partitions: int = 3) -> dict[int, list[bytes | None]]:
    """What a reader of committed records sees, to the end of each partition."""
    where = [TopicPartition(topic, number) for number in range(partitions)]
    found: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any(consumer.position(each) < ends[each] for each in where):
            for record in consumer.poll(1000):
                found[record.partition].append(record.value)
    return found


@pytest.fixture(
    scope="module",
    params=[
        *[(OdradekBroker, level) for level in (2, 1, 0)],
        *[pytest.param((JvmBroker, level), marks=pytest.mark.jvm) for level in (2, 1)],
    ],
    ids=lambda param: f"{param[0].name}-{param[1]}",
)
def bootstrap(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker of each kind and level of transaction.version."""
    kind, level = request.param
    broker: BrokerProcess = kind(tmp_path_factory.mktemp("broker"), CONFIG)
    broker.features["transaction.version"] = level
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def producer_settings(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, "transactional.id": unique_name("id"), "linger.ms": "0"}


def test_what_is_committed_is_read_and_what_is_aborted_is_not(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Producer(producer_settings) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for partition in range(3):
                producer.send(topic, b"%d" % number, partition=partition)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert committed(bootstrap, topic) == {partition: [b"0", b"2", b"4"] for partition in range(3)}


def fails(producer: Producer, topic: str, error: Exception) -> None:
    with producer.transaction():
        producer.send(topic, b"gone", partition=0)
        raise error


def test_a_block_commits_and_an_exception_aborts_and_goes_on(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Producer(producer_settings) as producer:
        with producer.transaction():
            first = producer.send(topic, b"kept", partition=0)
        assert first.result(0).offset == 0
        with pytest.raises(ZeroDivisionError):
            fails(producer, topic, ZeroDivisionError())
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
    assert committed(bootstrap, topic)[0] == [b"kept", b"kept"]


def test_arrow_rows_many_records_and_keys_are_part_of_it(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    import pyarrow as pa

    with Producer(producer_settings) as producer:
        for commit in (False, True):
            producer.init_transactions() if not commit else None
            producer.begin_transaction()
            producer.send_batch(topic, pa.record_batch({"value": [b"a", b"b"]}), partition=0)
            producer.send_many(topic, [b"c", b"d"], partition=1)
            producer.send(topic, b"e", partition=2)
            producer.send(topic, b"f", partition=2)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
    assert committed(bootstrap, topic) == {0: [b"a", b"b"], 1: [b"c", b"d"], 2: [b"e", b"f"]}


def test_empty_transactions_cost_nothing_and_can_be_many(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Producer(producer_settings) as producer:
        for number in range(4):
            with producer.transaction():
                if number == 2:
                    producer.send(topic, b"x", partition=0)
        producer.begin_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"y", partition=0)
    assert committed(bootstrap, topic)[0] == [b"x", b"y"]


def test_offsets_are_committed_with_the_transaction_and_only_with_it(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    group = unique_name("group")
    partition = TopicPartition(topic, 0)
    with Producer(producer_settings) as producer, Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        for offset, commit in ((5, False), (7, True), (9, False)):
            producer.init_transactions() if offset == 5 else None
            producer.begin_transaction()
            producer.send(topic, b"%d" % offset, partition=1)
            producer.send_offsets_to_transaction({partition: offset}, ConsumerGroupMetadata(group))
            producer.send_offsets_to_transaction({}, ConsumerGroupMetadata(group))
            producer.commit_transaction() if commit else producer.abort_transaction()
        found = consumer.committed([partition])[partition]
        assert found is not None
        assert found.offset == 7
    assert committed(bootstrap, topic)[1] == [b"7"]


def test_only_offsets_make_a_transaction(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    group = unique_name("group")
    with Producer(producer_settings) as producer, Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        with producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 3}, ConsumerGroupMetadata(group))
        assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 3  # type: ignore[union-attr]


def test_a_member_that_is_none_may_not_commit_and_the_next_transaction_may_go_on(
    bootstrap: str, topic: str, producer_settings: dict[str, str]
) -> None:
    group = unique_name("group")
    with Producer(producer_settings) as producer, Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        consumer.poll(3000)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"no", partition=0)
        with pytest.raises(TransactionError) as caught:
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, ConsumerGroupMetadata(group, 99, "nobody"))
        assert caught.value.abortable
        for call in (producer.commit_transaction, lambda: producer.send(topic, b"no", partition=0)):
            with pytest.raises(TransactionError):
                call()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"yes", partition=0)
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, consumer.group_metadata())
    assert committed(bootstrap, topic)[0] == [b"yes"]


def test_who_was_replaced_is_fenced(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Producer(producer_settings) as old, Producer(producer_settings) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"zombie", partition=0).result(10)
        new.init_transactions()
        old.send(topic, b"zombie", partition=0)
        with pytest.raises(TransactionError) as caught:
            old.commit_transaction()
        if caught.value.abortable:
            with pytest.raises(TransactionError) as caught:
                old.abort_transaction()
        assert caught.value.code is ErrorCode.PRODUCER_FENCED
        assert not caught.value.abortable
        for call in (old.begin_transaction, old.abort_transaction, lambda: old.send(topic, b"z", partition=0)):
            with pytest.raises(TransactionError):
                call()
        with new.transaction():
            new.send(topic, b"new", partition=0)
    assert committed(bootstrap, topic)[0] == [b"new"]


def test_calls_out_of_place_are_told_and_change_nothing(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    plain = Producer(bootstrap_servers=bootstrap)
    with pytest.raises(IllegalTransactionState, match=r"need the configuration transactional\.id"):
        plain.begin_transaction()
    plain.close()
    with Producer(producer_settings) as producer:
        for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(IllegalTransactionState, match="init_transactions was not called"):
                call()
        with pytest.raises(IllegalTransactionState):
            producer.send(topic, b"no")
        producer.init_transactions()
        with pytest.raises(IllegalTransactionState, match="init_transactions: no transaction has begun"):
            producer.init_transactions()
        with pytest.raises(IllegalTransactionState, match="sending: no transaction has begun"):
            producer.send(topic, b"no")
        with pytest.raises(IllegalTransactionState, match="sending: no transaction has begun"):
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, ConsumerGroupMetadata("g"))
        producer.begin_transaction()
        with pytest.raises(IllegalTransactionState, match="begin_transaction: a transaction is under way"):
            producer.begin_transaction()
        producer.send(topic, b"yes", partition=0)
        producer.commit_transaction()
        with pytest.raises(IllegalTransactionState, match="sending"):
            producer.send(topic, b"no", partition=0)
    assert committed(bootstrap, topic)[0] == [b"yes"]


def test_a_record_that_is_refused_fails_the_transaction(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.incremental_alter_configs({ConfigResource("topic", topic): [ConfigChange("max.message.bytes", "2000")]})
    with Producer(producer_settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"small", partition=1)
        producer.send(topic, b"x" * 10_000, partition=0)
        with pytest.raises(TransactionError, match="MESSAGE_TOO_LARGE") as caught:
            producer.commit_transaction()
        producer.abort_transaction()
        assert caught.value.abortable
        with producer.transaction():
            producer.send(topic, b"after", partition=0)
    found = committed(bootstrap, topic)
    assert (found[0], found[1]) == ([b"after"], [])


def test_a_producer_that_is_closed_leaves_no_transaction_open(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    with Producer(producer_settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"left", partition=0).result(10)
    with Admin(bootstrap_servers=bootstrap) as admin:
        (left,) = admin.describe_transactions([producer_settings["transactional.id"]]).values()
        assert left.state in ("CompleteAbort", "PrepareAbort")
    assert committed(bootstrap, topic)[0] == []


def test_several_producers_at_once(bootstrap: str, topic: str) -> None:
    def work(number: int) -> None:
        with Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}"}) as producer:
            for turn in range(10):
                with producer.transaction():
                    for partition in range(3):
                        producer.send(topic, b"%d-%d" % (number, turn), partition=partition)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for values in committed(bootstrap, topic).values():
        for number in range(4):
            assert [each for each in values if each.startswith(b"%d-" % number)] == [b"%d-%d" % (number, turn) for turn in range(10)]  # type: ignore[union-attr]


def test_the_asyncio_producer_does_the_same(bootstrap: str, topic: str, producer_settings: dict[str, str]) -> None:
    async def story() -> None:
        async with AsyncProducer(producer_settings) as producer:
            async with producer.transaction():
                await producer.send(topic, b"kept", partition=0)
            with pytest.raises(ZeroDivisionError):
                await aborts(producer)
            producer.begin_transaction()
            await producer.send(topic, b"kept", partition=0)
            await producer.commit_transaction()

    async def aborts(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"gone", partition=0)
            raise ZeroDivisionError

    asyncio.run(story())
    assert committed(bootstrap, topic)[0] == [b"kept", b"kept"]
