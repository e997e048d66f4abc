"""Places behind the public calls of clients that tests look at: nothing public shows them."""

from __future__ import annotations

from odradek.client import Consumer
from odradek.client.consumer.engine import ConsumerEngine


def engine_of(consumer: Consumer) -> ConsumerEngine:
    """Return the engine of a blocking consumer."""
    return consumer._client.engine


def partition_of(future: object) -> int:
    """Return the partition of a record that a producer has been given."""
    return int(future._batch.topic_partition.partition)  # type: ignore[attr-defined]
