"""What jobs of Spark have written."""

from __future__ import annotations

from odradek.client import Consumer, TopicPartition


def read_numbers(bootstrap: str, topic: str, partitions: int, count: int) -> list[int]:
    """The committed values of a topic, which are numbers, in their order; so many at least: a transaction's last markers are written after
    its commit is answered.
    """
    found: list[int] = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        reading = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(reading)
        ends = consumer.end_offsets(reading)
        while len(found) < count or any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [int(record.value or b"-1") for record in consumer.poll(500)]
    return sorted(found)
