"""Transactional producers of librdkafka, and the committed records."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from interop.peers import BrokerProcess

PATIENCE_S = 30.0


def producer(broker: BrokerProcess, transactional_id: str, **options: Any) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id}
    made = Producer(settings | {key.replace("_", "."): value for key, value in options.items()})
    made.init_transactions(PATIENCE_S)
    return made


def consumer(broker: BrokerProcess, group: str, isolation_level: str = "read_committed", protocol: str = "classic") -> Consumer:
    return Consumer(
        {
            "group.protocol": protocol,
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )


def contents(broker: BrokerProcess, topic: str, isolation_level: str = "read_committed") -> list[bytes]:
    """All values of partition 0 up to the last stable offset, or up to the end of the log."""
    source = consumer(broker, "nobody", isolation_level)
    source.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = source.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                found.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())
        raise TimeoutError(f"no end of {topic}")
    finally:
        source.close()


def run(source: Producer, topic: str, *values: bytes, commit: bool = True) -> None:
    source.begin_transaction()
    for value in values:
        source.produce(topic, value, partition=0)
    if commit:
        source.commit_transaction(PATIENCE_S)
    else:
        assert source.flush(PATIENCE_S) == 0
        source.abort_transaction(PATIENCE_S)
