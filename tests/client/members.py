"""Members of groups for the tests: blocking consumers that note what came and went, and reading with several of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from odradek.client import Consumer, Producer, RebalanceListener, TopicPartition

PATIENCE_S = 30.0
PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky", "consumer")
"""The assignors of classic groups, and the groups of KIP-848."""


def protocol_settings(protocol: str) -> dict[str, Any]:
    if protocol == "consumer":
        return {"group_protocol": "consumer"}
    return {"partition_assignment_strategy": protocol, "heartbeat_interval_ms": 100}


class Member(RebalanceListener):
    """A consumer of a group, and its listener."""

    def __init__(self, bootstrap: str, group: str, topics: Any, protocol: str = "range", **settings: Any) -> None:
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.owned: set[TopicPartition] = set()
        self.seen: list[tuple[int, int]] = []
        """(partition, offset) of what was handed out."""
        self.consumer = Consumer(
            bootstrap_servers=bootstrap, group_id=group, **{"auto_offset_reset": "earliest", **protocol_settings(protocol), **settings}
        )
        self.consumer.subscribe(topics, self)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", frozenset(partitions)))
        assert self.owned.isdisjoint(partitions)
        self.owned.update(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", frozenset(partitions)))
        assert self.owned.issuperset(partitions)
        self.owned.difference_update(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("lost", frozenset(partitions)))
        self.owned.difference_update(partitions)

    def poll(self, timeout_ms: int = 20) -> int:
        records = self.consumer.poll(timeout_ms)
        self.seen += [(record.partition, record.offset) for record in records]
        assert self.consumer.assignment() == self.owned
        return len(records)


def poll_until(members: Sequence[Member], done: Callable[[], bool]) -> None:
    """Polls the members in turns until it is done."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, [(member.consumer.group_metadata(), sorted(member.owned), member.events) for member in members]
        for member in members:
            member.poll()


def share(members: Sequence[Member], partitions: int) -> None:
    """Polls until the members have all partitions, each one of them, as evenly as it goes."""

    def shared() -> bool:
        sizes = sorted(len(member.owned) for member in members)
        owners = Counter(each for member in members for each in member.owned)
        return len(owners) == sum(sizes) == partitions and sizes[-1] - sizes[0] <= 1

    poll_until(members, shared)


def fill(bootstrap: str, topic: str, count: int, partitions: int = 3) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)
        producer.flush()
