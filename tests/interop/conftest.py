"""One Odradek broker process for all of the interop tests, and where its files are; one JVM for Kafka's tools, and a JVM broker beside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess, OdradekBroker, both
from interop.tools import JvmTools
from tests.interop.pair import Pair

CONFIG = {
    "message.max.bytes": "8388608",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Room for 5 MB values; groups that begin at once, and whose members soon hear of one another."""

PAIR_CONFIG = {
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""Records of years ago stay; rebalances take moments."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = OdradekBroker(tmp_path_factory.mktemp("odradek"), CONFIG)
    process.start()
    yield process
    assert process.process is not None
    assert process.process.poll() is None, f"the broker died:\n{process.log_tail()}"
    assert process.stop() == 0, process.log_tail()


@pytest.fixture(scope="session")
def new_topic(broker: BrokerProcess) -> Callable[..., str]:
    """Creates a topic with a name of its own and returns the name."""
    numbers = itertools.count()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def create(label: str, partitions: int = 1, **config: str) -> str:
        name = f"{label}-{next(numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        return name

    return create


@pytest.fixture(scope="session")
def partition_folder(broker: BrokerProcess) -> Callable[[str], Path]:
    def folder(topic: str, partition: int = 0) -> Path:
        return broker.data / f"{topic}-{partition}"

    return folder


@pytest.fixture(scope="package")
def jvm_tools() -> Iterator[JvmTools]:
    tools = JvmTools()
    yield tools
    tools.close()


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory, jvm_tools: JvmTools) -> Iterator[Pair]:
    """Odradek and JVM Kafka with the same configuration, for tests that compare what tools say; topics and groups as a test names them."""
    with both(tmp_path_factory.mktemp("pair"), PAIR_CONFIG) as (ours, theirs):
        yield Pair(ours, theirs, jvm_tools)
