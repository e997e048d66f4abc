"""Transactions of unmodified clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from interop.peers import BrokerProcess, OdradekBroker
from interop.tools import JvmTools
from interop.waiting import becomes
from tests.interop.transaction_support import PATIENCE_S, consumer, contents, producer, run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_commits_are_read_and_aborts_are_not(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("committed")
    source = producer(broker, topic)
    for number in range(4):
        run(source, topic, b"%d-a" % number, b"%d-b" % number, commit=number % 2 == 0)
    becomes(lambda: contents(broker, topic), [b"0-a", b"0-b", b"2-a", b"2-b"])
    assert len(contents(broker, topic, "read_uncommitted")) == 8


@pytest.mark.parametrize("max_bytes", [100, 1_000_000])
def test_our_own_consumer_leaves_out_what_was_aborted(broker: BrokerProcess, new_topic: Callable[..., str], max_bytes: int) -> None:
    from odradek.client import Consumer as OwnConsumer

    topic = new_topic("own")
    first, second = producer(broker, f"{topic}-1"), producer(broker, f"{topic}-2")
    wanted: list[bytes] = []
    for number in range(8):
        run(first, topic, b"first %d" % number, b"first again %d" % number, commit=number % 3 == 0)
        run(second, topic, b"second %d" % number, commit=number % 2 == 0)
        wanted += [b"first %d" % number, b"first again %d" % number] if number % 3 == 0 else []
        wanted += [b"second %d" % number] if number % 2 == 0 else []
    becomes(lambda: contents(broker, topic), wanted)
    with OwnConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=max_bytes,
    ) as reader:
        reader.assign([(topic, 0)])
        found: list[bytes | None] = []
        becomes(lambda: found.extend(record.value for record in reader.poll(500)) or found, wanted)


def test_an_open_transaction_holds_readers_back(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("open")
    first, second = producer(broker, f"{topic}-1"), producer(broker, f"{topic}-2")
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    assert first.flush(PATIENCE_S) == 0
    run(second, topic, b"second")
    assert contents(broker, topic) == []
    assert contents(broker, topic, "read_uncommitted") == [b"first", b"second"]
    first.commit_transaction(PATIENCE_S)
    becomes(lambda: contents(broker, topic), [b"first", b"second"])


def test_a_successor_fences_and_aborts(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("fenced")
    former = producer(broker, topic)
    former.begin_transaction()
    former.produce(topic, b"former", partition=0)
    assert former.flush(PATIENCE_S) == 0
    successor = producer(broker, topic)
    with pytest.raises(KafkaException) as caught:
        former.commit_transaction(PATIENCE_S)
    assert caught.value.args[0].fatal()
    run(successor, topic, b"successor")
    becomes(lambda: contents(broker, topic), [b"successor"])


def test_a_transaction_that_takes_too_long_is_aborted(new_broker: BrokerProcess) -> None:
    source = producer(new_broker, "slow", transaction_timeout_ms=1_000, message_timeout_ms=1_000)
    source.begin_transaction()
    source.produce("slow", b"lost", partition=0)
    assert source.flush(PATIENCE_S) == 0
    other = producer(new_broker, "other")
    run(other, "slow", b"kept")
    becomes(lambda: contents(new_broker, "slow"), [b"kept"])
    with pytest.raises(KafkaException):
        source.commit_transaction(PATIENCE_S)


def filled(broker: BrokerProcess, topic: str) -> str:
    """The topic, with five records."""
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(5):
        plain.produce(topic, b"%d" % number, partition=0)
    assert plain.flush(PATIENCE_S) == 0
    return topic


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_move_with_the_transaction(broker: BrokerProcess, new_topic: Callable[..., str], commit: bool, protocol: str) -> None:
    source_topic, target = filled(broker, new_topic("source")), new_topic("target")
    reader = consumer(broker, f"{source_topic}-group", protocol=protocol)
    reader.subscribe([source_topic])
    read: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(read) < 5 and time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message.value())
    writer = producer(broker, target)
    writer.begin_transaction()
    for value in read:
        writer.produce(target, value + b"!", partition=0)
    writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), PATIENCE_S)
    if commit:
        writer.commit_transaction(PATIENCE_S)
    else:
        writer.abort_transaction(PATIENCE_S)
    becomes(lambda: contents(broker, target), [value + b"!" for value in read] if commit else [])
    (committed,) = reader.committed([TopicPartition(source_topic, 0)], PATIENCE_S)
    assert committed.offset == (5 if commit else -1001)
    reader.close()


def test_offsets_move_with_the_transactions_of_kafka_python(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import kafka

    topic = filled(broker, new_topic("kafka-python-source"))
    partition = kafka.TopicPartition(topic, 0)
    reader = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"{topic}-group", enable_auto_commit=False)
    assert reader.partitions_for_topic(topic) == {0}
    reader.subscribe([topic])
    writer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic, acks="all")
    try:
        becomes(lambda: (reader.poll(timeout_ms=100), reader.assignment())[1], {partition})
        writer.init_transactions()
        for offset, commit, committed in ((3, False, None), (4, True, 4), (5, False, 4)):
            writer.begin_transaction()
            writer.send_offsets_to_transaction({partition: kafka.structs.OffsetAndMetadata(offset, "", -1)}, reader.group_metadata())
            if commit:
                writer.commit_transaction()
            else:
                writer.abort_transaction()
            becomes(lambda: reader.committed(partition), committed)
    finally:
        writer.close()
        reader.close()


def test_offsets_move_with_the_transactions_of_aiokafka(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka

    topic = filled(broker, new_topic("aiokafka-source"))
    partition = aiokafka.TopicPartition(topic, 0)

    async def committed_after(offset: int, commit: bool) -> int | None:
        group = f"{topic}-group"
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as writer:
            await writer.begin_transaction()
            await writer.send_offsets_to_transaction({partition: offset}, group)
            await (writer.commit_transaction() if commit else writer.abort_transaction())
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False) as reader:
            reader.assign([partition])
            return await reader.committed(partition)

    for offset, commit, committed in ((3, False, None), (4, True, 4), (5, False, 4)):
        assert asyncio.run(asyncio.wait_for(committed_after(offset, commit), PATIENCE_S)) == committed


def test_aiokafka_writes_transactions(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka

    topic = new_topic("aiokafka-txn")

    async def produce() -> None:
        source = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
        await source.start()
        async with source.transaction():
            await source.send_and_wait(topic, b"committed", partition=0)
        await source.begin_transaction()
        await source.send_and_wait(topic, b"aborted", partition=0)
        await source.abort_transaction()
        async with source.transaction():
            await source.send_and_wait(topic, b"again", partition=0)
        await source.stop()

    async def read(count: int) -> list[bytes]:
        reader = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await reader.start()
        found = [(await reader.getone()).value for _ in range(count)]
        await reader.stop()
        return found

    asyncio.run(asyncio.wait_for(produce(), PATIENCE_S))
    becomes(lambda: contents(broker, topic), [b"committed", b"again"])
    assert asyncio.run(asyncio.wait_for(read(2), PATIENCE_S)) == [b"committed", b"again"]


def test_kafka_python_writes_transactions(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    from kafka import KafkaProducer

    topic = new_topic("kafka-python-txn")
    source = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic, acks="all")
    source.init_transactions()
    for value, commit in ((b"committed", True), (b"aborted", False), (b"again", True)):
        source.begin_transaction()
        source.send(topic, value, partition=0).get(PATIENCE_S)
        if commit:
            source.commit_transaction()
        else:
            source.abort_transaction()
    source.close()
    becomes(lambda: contents(broker, topic), [b"committed", b"again"])


@pytest.fixture
def new_broker(tmp_path: Any) -> Iterator[BrokerProcess]:
    """One that looks for transactions that take too long all the time."""
    with OdradekBroker(tmp_path, {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}) as process:
        yield process


@pytest.mark.jvm
@pytest.mark.timeout(240)
def test_kafka_producer_perf_test_in_transactions(broker: BrokerProcess, new_topic: Callable[..., str], jvm_tools: JvmTools) -> None:
    topic = new_topic("perf-txn")
    arguments = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1", "--bootstrap-server", broker.bootstrap)
    done = jvm_tools.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, *arguments, "--transactional-id", topic, "--transaction-duration-ms", "50"),
    )
    assert done.returncode == 0, done.stderr.decode()
    becomes(lambda: len(contents(broker, topic)), 2_000)
    dumped = jvm_tools.run(
        "org.apache.kafka.tools.DumpLogSegments",
        "--transaction-log-decoder",
        "--files",
        ",".join(str(path) for path in sorted(broker.data.glob("__transaction_state-*/*.log")) if path.stat().st_size),
    )
    assert dumped.returncode == 0, dumped.stderr.decode()
    states = [line for line in dumped.stdout.decode().splitlines() if f"{topic}" in line]
    assert any('"transactionStatus":4' in line for line in states), dumped.stdout.decode()[-3_000:]
