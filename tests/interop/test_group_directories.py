"""Groups and offsets survive a change of implementation: JVM Kafka and Odradek take turns on one directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

CONFIG = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
PER_TURN, TURNS = 10, 4
PATIENCE_S = 60.0


def turn(broker: BrokerProcess, number: int) -> None:
    """Reads on where the implementation before left off, and leaves a group of its own behind."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    if number == 0:
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in range(number * PER_TURN, (number + 1) * PER_TURN):
        producer.produce("t", b"%d" % value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    for group, first in (("kept", number * PER_TURN), (f"turn-{number}", 0)):
        source = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        source.subscribe(["t"])
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < (number + 1) * PER_TURN - first and time.monotonic() < deadline:
            message = source.poll(0.2)
            if message is not None and not message.error():
                found.append(int(message.value()))
        assert found == list(range(first, (number + 1) * PER_TURN)), f"{broker.name} in turn {number}, group {group}"
        source.commit(offsets=[TopicPartition("t", 0, (number + 1) * PER_TURN, metadata=f"turn {number}")], asynchronous=False)
        source.close()
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert {(each.group_id, each.state) for each in listed.valid} == {
        (group, ConsumerGroupState.EMPTY) for group in ("kept", *[f"turn-{each}" for each in range(number + 1)])
    }


@pytest.mark.parametrize("first", ["odradek", "jvm"])
def test_taking_turns_with_groups(tmp_path: Path, first: str) -> None:
    makers: list[Callable[[], BrokerProcess]] = [lambda: OdradekBroker(tmp_path, CONFIG), lambda: JvmBroker(tmp_path, CONFIG, heap="512m")]
    if first == "jvm":
        makers.reverse()
    for number in range(TURNS):
        broker = makers[number % 2]()
        broker.start()
        try:
            turn(broker, number)
        finally:
            broker.stop()
