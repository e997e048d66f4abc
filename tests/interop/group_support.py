"""Consumers of librdkafka in a group."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer

from interop.peers import BrokerProcess
from interop.waiting import until

PATIENCE_S = 30.0


COUNT = 40


def fill(broker: BrokerProcess, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


def consumer(broker: BrokerProcess, group: str, **options: Any) -> Consumer:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer(settings | {key.replace("_", "."): value for key, value in options.items()})


def read(source: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def enough() -> bool:
        message = source.poll(0.1)
        if message is not None and not message.error():
            found.append(message.value())
        return len(found) >= count

    until(enough, pause_s=0)
    return found
