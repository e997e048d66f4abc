"""Fixtures of the interop tests: one Odradek broker process with its files, one JVM for Kafka's tools, and a JVM broker for comparisons."""

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
"""Broker keys for values of 5 MB, and for groups that start without delay and whose members send heartbeats often."""

PAIR_CONFIG = {
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""Broker keys that keep old records and make rebalances fast."""


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
    """Return a function that creates a topic with a unique name and returns the name."""
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
    """Yield Odradek and JVM Kafka with the same configuration, to compare the output of tools. Each test names its topics and groups."""
    with both(tmp_path_factory.mktemp("pair"), PAIR_CONFIG) as (ours, theirs):
        yield Pair(ours, theirs, jvm_tools)
