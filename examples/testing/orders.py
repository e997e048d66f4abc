"""A small program to be tested: it takes orders from one topic and writes their totals to another, with confluent-kafka."""

from __future__ import annotations

import json
from collections import Counter

from confluent_kafka import Consumer, Producer


class Totals:
    """Adds up orders by customer: a record of `source` has a customer as its key and an amount as its value, one of `target` the total."""

    def __init__(self, bootstrap_servers: str, source: str, target: str, *, group: str = "totals", **settings: object) -> None:
        common = {"bootstrap.servers": bootstrap_servers, **settings}
        self._target = target
        self._totals: Counter[str] = Counter()
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer({**common, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        self._consumer.subscribe([source])

    def take(self, timeout_s: float = 20.0) -> int:
        """Handles the next order; returns the customer's total. TimeoutError when none comes."""
        message = self._consumer.poll(timeout_s)
        if message is None:
            raise TimeoutError(f"no order in {timeout_s:g} s")
        if message.error() is not None:
            raise RuntimeError(message.error().str())
        customer = (message.key() or b"").decode()
        self._totals[customer] += json.loads(message.value() or b"0")
        self._producer.produce(self._target, json.dumps(self._totals[customer]).encode(), customer.encode())
        if self._producer.flush(20):
            raise RuntimeError("the total was not written")
        self._consumer.commit(message=message, asynchronous=False)
        return self._totals[customer]

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()
