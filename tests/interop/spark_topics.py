"""The topics that both connectors read."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer

from odradek.client import Admin, Consumer, NewTopic, TopicPartition
from tests.interop.spark_options import CUT, PLAIN, RECORDS

CONFIG = {"log.retention.ms": "-1", "offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
"""Of the brokers."""


class Topics:
    """What stands in the topics of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.start_ms = int(time.time()) * 1000 - 3_600_000
        self.admin = Admin(bootstrap_servers=bootstrap)
        stamped = {"message.timestamp.type": "LogAppendTime"}
        self.admin.create_topics([NewTopic(name, many, 1, configs=stamped if name == "stamped" else {}) for name, many in PLAIN.items()])
        self._produce()
        self._transactions()
        self.admin.delete_records({TopicPartition("cut", 0): CUT})
        with Consumer(bootstrap_servers=bootstrap, group_id="somebody") as consumer:
            consumer.commit({TopicPartition("plain", 0): 1})  # which makes a topic of Kafka's own

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """What Spark is told: with the address, and with times in place of `@N`. Neither side waits between attempts for nothing."""
        always = {"kafka.bootstrap.servers": self.bootstrap, "fetchOffset.retryIntervalMs": "1"}
        timed = {name: re.sub(r'"?@(\d+)"?', lambda found: str(self.time_ms(int(found[1]))), value) for name, value in given.items()}
        return {**always, **timed}

    def close(self) -> None:
        self._open.purge()
        del self._open
        self.admin.close()

    def time_ms(self, number: int) -> int:
        """Of the record `number` of each partition."""
        return self.start_ms + 1000 * number

    @staticmethod
    def partition(topic: str, number: int) -> TopicPartition:
        return TopicPartition(topic, number)

    def contents(self, topic: str, partitions: int = 2) -> list[Any]:
        """Partition, key, value and headers of the records, sorted."""
        found: list[Any] = []
        with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            chosen = [TopicPartition(topic, number) for number in range(partitions)]
            ends = consumer.end_offsets(chosen)
            consumer.assign(chosen)
            while any(consumer.position(each) < ends[each] for each in chosen):
                found += [(record.partition, record.key, record.value, list(record.headers)) for record in consumer.poll(5000)]
        return sorted(found, key=repr)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for (topic, partition), many in RECORDS.items():
            for number in range(many):
                self.send(producer, topic, partition, number)
        producer.flush()

    def send(self, producer: Producer, topic: str, partition: int, number: int) -> None:
        """With a key, a value, headers; or with some of them null."""
        headers: list[tuple[str, Any]] = [[], [("h", b"1")], [("h", b"1"), ("h", None), ("", b"")]][number % 3]
        key = None if number % 4 == 1 else f"k{number}".encode()
        value = None if number % 5 == 2 else f"{topic} {partition} {number}".encode()
        producer.produce(topic, value, key, partition, timestamp=self.time_ms(number), headers=headers)

    def _transactions(self) -> None:
        """Committed, aborted, one that stays open, with plain records between them."""

        def transaction(name: str, many: int) -> Producer:
            producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name, "transaction.timeout.ms": 840_000})
            producer.init_transactions(30)
            producer.begin_transaction()
            for number in range(many):
                self.send(producer, "transactions", 0, number)
            producer.flush()
            return producer

        plain = Producer({"bootstrap.servers": self.bootstrap})
        transaction("commits", 3).commit_transaction(30)
        transaction("aborts", 3).abort_transaction(30)
        transaction("commits", 2).commit_transaction(30)
        self.send(plain, "transactions", 0, 0)
        plain.flush()
        self._open = transaction("open", 2)
        self.send(plain, "transactions", 0, 1)
        plain.flush()
