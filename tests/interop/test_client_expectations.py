"""Failures that unmodified clients found in another new implementation of a broker: each one is a test here.

librdkafka, kafka-python and aiokafka, wherever they have the call in question.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from interop.peers import BrokerProcess
from interop.waiting import until
from odradek.records.batch import iter_headers
from tests.campaigns.group_log import generation_of
from tests.interop.group_support import COUNT, PATIENCE_S, consumer, fill

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

T = TypeVar("T")
BATCH = 100


def within_patience(work: Awaitable[T]) -> T:
    async def waited() -> T:
        return await asyncio.wait_for(work, PATIENCE_S)

    return asyncio.run(waited())


@contextlib.asynccontextmanager
async def aio_consumer(broker: BrokerProcess, **options: Any) -> AsyncIterator[Any]:
    import aiokafka

    source = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, **options)
    await source.start()
    try:
        yield source
    finally:
        await source.stop()


@contextlib.contextmanager
def python_consumer(broker: BrokerProcess, **options: Any) -> Iterator[Any]:
    import kafka

    source = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, **options)
    try:
        yield source
    finally:
        source.close()


def read_from(broker: BrokerProcess, topic: str, offset: int, count: int, isolation: str = "read_uncommitted") -> dict[str, list[bytes]]:
    """What each client reads of partition 0 from the offset on: `count` values."""
    import aiokafka
    import kafka

    found: dict[str, list[bytes]] = {"confluent": [], "kafka-python": [], "aiokafka": []}
    source = consumer(broker, "-", isolation_level=isolation)
    source.assign([TopicPartition(topic, 0, offset)])

    def librdkafka() -> bool:
        message = source.poll(0.1)
        if message is not None and not message.error():
            found["confluent"].append(message.value() or b"")
        return len(found["confluent"]) >= count

    until(librdkafka, pause_s=0)
    source.close()
    with python_consumer(broker, isolation_level=isolation, enable_auto_commit=False) as other:
        partition = kafka.TopicPartition(topic, 0)
        other.assign([partition])
        other.seek(partition, offset)

        def kafka_python() -> bool:
            for records in other.poll(timeout_ms=100).values():
                found["kafka-python"] += [record.value for record in records]
            return len(found["kafka-python"]) >= count

        until(kafka_python)

    async def aio() -> None:
        async with aio_consumer(broker, isolation_level=isolation) as third:
            partition = aiokafka.TopicPartition(topic, 0)
            third.assign([partition])
            third.seek(partition, offset)
            while len(found["aiokafka"]) < count:
                for records in (await third.getmany(timeout_ms=100)).values():
                    found["aiokafka"] += [record.value for record in records]

    within_patience(aio())
    return found


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_fetch_from_the_middle_of_a_batch_gets_the_rest_of_it(
    broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], compression: str
) -> None:
    topic = new_topic("middle")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 60_000, "compression.type": compression})
    # It knows the partition before the first record: else it may hear of it within `flush`, which then sends what is there so far.
    producer.list_topics(topic, PATIENCE_S)
    for number in range(BATCH):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    log = (partition_folder(topic) / f"{0:020}.log").read_bytes()
    assert [header.record_count for _, header in iter_headers(memoryview(log))] == [BATCH]
    for offset in (1, BATCH // 2, BATCH - 1):
        wanted = [b"%d" % number for number in range(offset, BATCH)]
        for client, values in read_from(broker, topic, offset, len(wanted)).items():
            assert values == wanted, client


def test_what_was_aborted_is_invisible_to_read_committed(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("aborted")
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    first, second = (Producer({**settings, "transactional.id": f"{topic}-{number}"}) for number in range(2))
    first.init_transactions(PATIENCE_S)
    second.init_transactions(PATIENCE_S)
    for number in range(10):
        # Two transactions at a time, their records in turns; one of them is aborted.
        kept, aborted = (first, second) if number % 2 else (second, first)
        kept.begin_transaction()
        aborted.begin_transaction()
        for index in range(4):
            for producer, text in ((aborted, "aborted"), (kept, "kept")):
                producer.produce(topic, f"{text} {number} {index}".encode(), partition=0)
                assert producer.flush(PATIENCE_S) == 0
        aborted.abort_transaction(PATIENCE_S)
        kept.commit_transaction(PATIENCE_S)
    wanted = [f"kept {number} {index}".encode() for number in range(10) for index in range(4)]
    for client, values in read_from(broker, topic, 0, len(wanted), "read_committed").items():
        assert values == wanted, client
    for client, values in read_from(broker, topic, 0, 2 * len(wanted)).items():
        assert len(values) == 2 * len(wanted), client
    # From within the first transaction: the index of aborted ones is asked for what began before.
    for client, values in read_from(broker, topic, 2, len(wanted) - 1, "read_committed").items():
        assert values == wanted[1:], client


class Words(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def logged(name: str) -> Iterator[tuple[logging.Logger, Words]]:
    logger, words = logging.getLogger(name), Words()
    level = logger.level
    logger.addHandler(words)
    logger.setLevel(logging.DEBUG)
    try:
        yield logger, words
    finally:
        logger.removeHandler(words)
        logger.setLevel(level)


def unknown_members(lines: list[str]) -> list[str]:
    return [line for line in lines if "unknownmember" in line.replace("_", "").replace(" ", "").lower()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nobody_becomes_unknown_when_many_join_at_once(broker: BrokerProcess, new_topic: Callable[..., str], protocol: str) -> None:
    topic = new_topic("at-once", 6)
    options: dict[str, Any] = {"group_protocol": protocol, "debug": "cgrp"}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 300
    with logged("test.librdkafka") as (logger, words):
        members = [consumer(broker, f"{topic}-group", logger=logger, **options) for _ in range(6)]

        def poll(member: Consumer) -> None:
            member.poll(0.1)

        with ThreadPoolExecutor(len(members)) as pool:
            list(pool.map(lambda member: member.subscribe([topic]), members))

            def shared() -> bool:
                list(pool.map(poll, members))
                return all(len(member.assignment()) == 1 for member in members)

            until(shared)
            # Three leave at once, and the others go on.
            list(pool.map(lambda member: member.close(), members[:3]))

            def shared_again() -> bool:
                list(pool.map(poll, members[3:]))
                return all(len(member.assignment()) == 2 for member in members[3:])

            until(shared_again)
            list(pool.map(lambda member: member.close(), members[3:]))
    assert words.lines
    assert unknown_members(words.lines) == []


def test_nobody_becomes_unknown_when_python_clients_join_at_once(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka

    topic = new_topic("at-once", 4)
    options: dict[str, Any] = {"group_id": f"{topic}-group", "heartbeat_interval_ms": 300}

    async def many() -> None:
        async with contextlib.AsyncExitStack() as stack:
            members = [aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, **options) for _ in range(4)]
            for member in members:
                stack.push_async_callback(member.stop)
            await asyncio.gather(*(member.start() for member in members))
            while not all(len(member.assignment()) == 1 for member in members):
                await asyncio.gather(*(member.getmany(timeout_ms=100) for member in members))

    with logged("aiokafka") as (_, words):
        within_patience(many())
    assert words.lines
    assert unknown_members(words.lines) == []


@pytest.mark.parametrize(
    "options",
    [{"partition_assignment_strategy": "range", "heartbeat_interval_ms": 300}, {"group_protocol": "consumer"}],
    ids=["classic", "consumer"],
)
def test_a_group_rebalances_once_for_each_change_and_never_without(
    broker: BrokerProcess, new_topic: Callable[..., str], options: dict[str, Any]
) -> None:
    topic = new_topic("excess", 4)
    fill(broker, topic, 4)
    members: list[Consumer] = []

    def add() -> None:
        member = consumer(broker, f"{topic}-group", **options)
        member.subscribe([topic])
        members.append(member)

    def settled() -> int:
        """The generation, once all of them share the partitions in it."""

        def shared() -> bool:
            for member in members:
                member.poll(0.05)
            owned = [[each.partition for each in member.assignment()] for member in members]
            together = len({generation_of(member)[0] for member in members}) == 1
            return together and all(owned) and sorted(itertools.chain(*owned)) == list(range(4))

        until(shared)
        return generation_of(members[0])[0]

    add()
    generation = settled()
    for _ in range(3):
        add()
        assert settled() == generation + 1
        generation += 1
    for _ in range(2):
        members.pop().close()
        assert settled() == generation + 1
        generation += 1
    # Heartbeats and commits are no reasons.
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for member in members:
            member.poll(0.05)
            with contextlib.suppress(KafkaException):
                member.commit(asynchronous=False)
    assert settled() == generation
    for member in members:
        member.close()


def test_asking_for_the_metadata_of_a_topic_creates_it(broker: BrokerProcess) -> None:
    import aiokafka
    import kafka

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def partitions(topic: str) -> int:
        return len(admin.list_topics(timeout=PATIENCE_S).topics[topic].partitions) if exists(topic) else 0

    def exists(topic: str) -> bool:
        return topic in admin.list_topics(timeout=PATIENCE_S).topics

    Producer({"bootstrap.servers": broker.bootstrap}).list_topics("asked-for-by-librdkafka", timeout=PATIENCE_S)
    until(lambda: partitions("asked-for-by-librdkafka") == 1)
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        assert producer.partitions_for("asked-for-by-kafka-python") == {0}
    assert partitions("asked-for-by-kafka-python") == 1

    async def ask() -> set[int]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        try:
            found: set[int] = await producer.partitions_for("asked-for-by-aiokafka")
            return found
        finally:
            await producer.stop()

    assert within_patience(ask()) == {0}
    assert partitions("asked-for-by-aiokafka") == 1
    shy = consumer(broker, "shy", allow_auto_create_topics=False)
    shy.list_topics("not-asked-for", timeout=PATIENCE_S)
    shy.close()
    assert not exists("not-asked-for")


def test_the_metadata_of_committed_offsets_is_kept(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import kafka

    topic = new_topic("noted")
    fill(broker, topic, 1)
    note = "höchst wichtig " * 50
    source = consumer(broker, f"{topic}-librdkafka")
    source.commit(offsets=[TopicPartition(topic, 0, 7, note)], asynchronous=False)
    with pytest.raises(KafkaException) as refused:
        source.commit(offsets=[TopicPartition(topic, 0, 8, "x" * 5000)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    (found,) = source.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert (found.offset, found.metadata) == (7, note)
    source.close()
    with python_consumer(broker, group_id=f"{topic}-kafka-python", enable_auto_commit=False) as other:
        partition = kafka.TopicPartition(topic, 0)
        other.assign([partition])
        other.commit({partition: kafka.OffsetAndMetadata(9, note, -1)})
        assert other.committed(partition, metadata=True)[:2] == (9, note)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    member = consumer(broker, f"{topic}-transaction")
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 11, note)], member.consumer_group_metadata(), PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    (found,) = member.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert (found.offset, found.metadata) == (11, note)
    member.close()


def test_no_transaction_may_last_longer_than_the_broker_allows(broker: BrokerProcess) -> None:
    import aiokafka
    import aiokafka.errors

    most = 900_000
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "long", "log_level": 0}
    with pytest.raises(KafkaException) as refused:
        Producer({**settings, "transaction.timeout.ms": most + 1}).init_transactions(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
    Producer({**settings, "transaction.timeout.ms": most}).init_transactions(PATIENCE_S)

    async def ask() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id="long-too", transaction_timeout_ms=most + 1
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError, match=r"(?i)timeout"):
        within_patience(ask())


def test_no_batch_may_be_larger_than_the_topic_allows(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka
    import aiokafka.errors
    import kafka
    import kafka.errors

    topic = new_topic("small", max_message_bytes="2000")
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 8_000_000})
    for size in (1000, 3000):
        producer.produce(topic, b"x" * size, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
    assert errors[0] is None
    assert errors[1] is not None
    assert errors[1].code() == KafkaError.MSG_SIZE_TOO_LARGE
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)) as other:
        other.send(topic, b"x" * 1000).get(PATIENCE_S)
        with pytest.raises(kafka.errors.MessageSizeTooLargeError):
            other.send(topic, b"x" * 3000).get(PATIENCE_S)

    async def send() -> None:
        third = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await third.start()
        try:
            await third.send_and_wait(topic, b"x" * 1000)
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
                await third.send_and_wait(topic, b"x" * 3000)
        finally:
            await third.stop()

    within_patience(send())
    _, end = consumer(broker, "-").get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
    assert end == 3


def test_every_topic_of_create_partitions_is_answered(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewPartitions as KafkaPythonNewPartitions

    grows, same, checked = new_topic("grows"), new_topic("same", 3), new_topic("checked")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    futures = admin.create_partitions([NewPartitions(grows, 4), NewPartitions(same, 2), NewPartitions("no-such-topic", 2)])
    assert futures[grows].result(PATIENCE_S) is None
    for topic, code in ((same, KafkaError.INVALID_PARTITIONS), ("no-such-topic", KafkaError.UNKNOWN_TOPIC_OR_PART)):
        with pytest.raises(KafkaException) as refused:
            futures[topic].result(PATIENCE_S)
        assert refused.value.args[0].code() == code
        assert refused.value.args[0].str()
    only = admin.create_partitions([NewPartitions(checked, 5)], validate_only=True)
    assert only[checked].result(PATIENCE_S) is None
    counts = {topic: len(found.partitions) for topic, found in admin.list_topics(timeout=PATIENCE_S).topics.items()}
    assert (counts[grows], counts[same], counts[checked]) == (4, 3, 1)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as other:
        answer = other.create_partitions({grows: KafkaPythonNewPartitions(6)})
        assert [result["name"] if isinstance(result, dict) else result[0] for result in _results(answer)] == [grows]


def _results(answer: Any) -> list[Any]:
    return list(answer["results"] if isinstance(answer, dict) else answer.results)


def test_the_offsets_of_partitions_are_answered_whatever_is_asked(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka
    import kafka

    empty, full, pending = new_topic("empty"), new_topic("full"), new_topic("pending")
    fill(broker, full, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": pending})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(pending, b"not committed yet", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    specs = {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "max": OffsetSpec.max_timestamp(),
        "old": OffsetSpec.for_timestamp(1),
        "future": OffsetSpec.for_timestamp(int(time.time() * 1000) + 10**9),
    }
    wanted = {
        (empty, "read_uncommitted"): (0, 0, -1, -1, -1),
        (full, "read_uncommitted"): (0, COUNT, COUNT - 1, 0, -1),
        (pending, "read_uncommitted"): (0, 1, 0, 0, -1),
        (pending, "read_committed"): (0, 0, -1, -1, -1),
    }
    for (topic, isolation), offsets in wanted.items():
        level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
        found: dict[str, int] = {}
        for name, spec in specs.items():
            partition = TopicPartition(topic, 0)
            answered = admin.list_offsets({partition: spec}, isolation_level=level, request_timeout=PATIENCE_S)
            found[name] = answered[partition].result(PATIENCE_S).offset
        if topic == full:
            # Whichever of those that have the latest millisecond.
            assert 0 <= found["max"] < COUNT
            found["max"] = COUNT - 1
        assert tuple(found.values()) == offsets, (topic, isolation, found)
    with python_consumer(broker) as source:
        for topic, end in ((empty, 0), (full, COUNT), (pending, 1)):
            partition = kafka.TopicPartition(topic, 0)
            assert source.beginning_offsets([partition]) == {partition: 0}
            assert source.end_offsets([partition]) == {partition: end}
            source.offsets_for_times({partition: 1})

    async def ask() -> None:
        async with aio_consumer(broker, isolation_level="read_committed") as third:
            for topic, end in ((empty, 0), (full, COUNT), (pending, 0)):
                partition = aiokafka.TopicPartition(topic, 0)
                assert await third.beginning_offsets([partition]) == {partition: 0}
                assert await third.end_offsets([partition]) == {partition: end}
                await third.offsets_for_times({partition: 1})

    within_patience(ask())
    missing = TopicPartition(full, 17)
    with pytest.raises(KafkaException):
        admin.list_offsets({missing: OffsetSpec.latest()}, request_timeout=PATIENCE_S)[missing].result(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
