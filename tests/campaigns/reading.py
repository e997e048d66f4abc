"""Reads of whole partitions after a campaign."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

PATIENCE_S = 120


class Row(NamedTuple):
    offset: int
    key: bytes
    value: bytes


def read_to_end(bootstrap: str, topic: str, partitions: Iterable[int]) -> dict[int, list[Row]]:
    """Return every record of the partitions in log order, with checked checksums. Raises TimeoutError when the ends are not reached in 120
    s.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-to-end",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    found: dict[int, list[Row]] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    unfinished = set(found)
    deadline = time.monotonic() + PATIENCE_S
    try:
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{sorted(unfinished)} were not read to their end")
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found[message.partition() or 0].append(Row(message.offset() or 0, message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition() or 0)
                elif error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise RuntimeError(str(error))
    finally:
        consumer.close()
    return found
