"""One data directory, two brokers in turn: what Odradek wrote JVM Kafka reads, serves and extends, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from tests.interop.tool_support import dump

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

TOPICS = {"plain": "none", "squeezed": "zstd", "snappy": "snappy"}
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


def create(broker: BrokerProcess, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1, config=SMALL_SEGMENTS) for name in names]).values():
        future.result(30)


def produce(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": TOPICS[topic], "batch.num.messages": 50}
    )
    failures: list[object] = []
    for number in range(first, first + count):
        producer.produce(
            topic,
            f"{number}:".encode() + b"x" * 700,
            str(number).encode(),
            partition=number % 2,
            on_delivery=lambda e, _: e and failures.append(e),
        )
    assert producer.flush(60) == 0
    assert failures == []


def numbers(broker: BrokerProcess, topic: str, count: int) -> list[int]:
    """The numbers in the topic, sorted; exactly `count` of them must come, each partition in order."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "directories", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    found: dict[int, list[int]] = {0: [], 1: []}
    while sum(map(len, found.values())) < count:
        message = consumer.poll(30)
        assert message is not None, f"{topic}: only {sum(map(len, found.values()))} of {count}"
        assert message.error() is None, message.error()
        found[message.partition() or 0].append(int((message.value() or b"").split(b":")[0]))
    ends = sum(consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1] for partition in range(2))
    consumer.close()
    assert ends == count
    assert all(values == sorted(values) for values in found.values())
    return sorted(found[0] + found[1])


def run(broker: BrokerProcess, work: Callable[[BrokerProcess], None]) -> None:
    broker.start()
    try:
        work(broker)
    finally:
        broker.stop()


def assert_dumps(data: Path) -> None:
    logs = [path for topic in TOPICS for path in sorted(data.glob(f"{topic}-*/*.log"))]
    assert len(logs) > 4, "the segments should have rolled"
    dump(*logs, options=("--deep-iteration", "--print-data-log"))
    indexes = [path for log in logs for path in (log.with_suffix(".index"), log.with_suffix(".timeindex")) if path.exists()]
    dump(*indexes, options=("--verify-index-only",))
    dump(*indexes, options=("--index-sanity-check",))
    snapshots = [path for topic in TOPICS for path in sorted(data.glob(f"{topic}-*/*.snapshot"))]
    assert snapshots
    dump(*snapshots)
    metadata = sorted((data / "__cluster_metadata-0").glob("*.log")) + sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))
    text = dump(*metadata, options=("--cluster-metadata-decoder",))
    for record in ("TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD", "LeaderChange"):
        assert record in text, f"no {record} in the metadata log"


@pytest.mark.parametrize("first", ["odradek", "jvm"])
def test_taking_turns_on_one_directory(tmp_path: Path, first: str) -> None:
    ours: Callable[[], BrokerProcess] = lambda: OdradekBroker(tmp_path)  # noqa: E731
    theirs: Callable[[], BrokerProcess] = lambda: JvmBroker(tmp_path, heap="512m")  # noqa: E731
    turns = (ours, theirs, ours, theirs) if first == "odradek" else (theirs, ours, theirs, ours)
    written = 0
    for number, make in enumerate(turns):
        broker = make()

        def work(broker: BrokerProcess, number: int = number, written: int = written) -> None:
            if number == 0:
                create(broker, *TOPICS)
            listed = set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics)
            assert listed >= {*TOPICS, *(f"extra-{turn}" for turn in range(number))}
            for topic in TOPICS:
                if written:
                    assert numbers(broker, topic, written) == list(range(written))
                produce(broker, topic, written, 3000)
                assert numbers(broker, topic, written + 3000) == list(range(written + 3000))
            create(broker, f"extra-{number}")

        run(broker, work)
        written += 3000
        if isinstance(broker, OdradekBroker):
            assert_dumps(broker.data)
