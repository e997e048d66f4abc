"""Broker process for tests of clients: Odradek, and in runs with JVM peers also JVM Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peers import JvmBroker, OdradekBroker
from odradek.client import Admin, NewTopic

CONFIG = {
    "num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
}
"""Broker keys for groups that start without delay and whose members send heartbeats often."""


@pytest.fixture(scope="session", params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def bootstrap(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    kind = OdradekBroker if request.param == "odradek" else JvmBroker
    broker = kind(tmp_path_factory.mktemp("broker"), CONFIG)
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def topic(bootstrap: str, own_name: str) -> str:
    """Return the name of a new topic with three partitions, for one test."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(own_name, 3, 1)])
    return own_name
