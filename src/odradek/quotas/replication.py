"""Quota of replication traffic of throttled replicas (KIP-73; org.apache.kafka.server.quota.ReplicationQuotaManager).

A broker has one quota for the bytes that it sends as leader, and one for the bytes that it fetches as follower. The topics name the
throttled replicas. A quota applies only to throttled replicas outside of the ISR. Bytes beyond the quota are still recorded: the rate then
exceeds the limit, and the next transfer has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.quotas.samples import UNLIMITED, SimpleRate, Window


class ReplicationQuota:
    """Rate in bytes per second of all throttled replicas of one direction."""

    __slots__ = ("_limit", "_rate", "_throttled", "limited")

    def __init__(self, window: Window) -> None:
        self._rate = SimpleRate(window)
        self._limit = UNLIMITED
        self._throttled: dict[str, frozenset[int] | None] = {}
        """Topic -> throttled partitions; None for all partitions."""
        self.limited = False
        """Whether there are both a limit and throttled replicas."""

    def limit(self, rate: int) -> None:
        """Set the limit in bytes per second."""
        self._limit = float(rate)
        self._settle()

    def throttle(self, topic: str, replicas: str, broker_id: int) -> None:
        """Set the throttled replicas of a topic from leader.replication.throttled.replicas or follower.replication.throttled.replicas.

        The value is "*" for all replicas, a comma-separated list of partition:broker, or "" for none.
        """
        wanted = replicas.strip()
        if wanted == "*":
            self._throttled[topic] = None
            self._settle()
            return
        mine = frozenset(_partitions_of(wanted.split(","), broker_id))
        if mine:
            self._throttled[topic] = mine
        else:
            self._throttled.pop(topic, None)
        self._settle()

    def holds_for(self, topic: str | None, partition: int) -> bool:
        """Return whether this broker's replica of the partition is throttled."""
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or partition in partitions

    def record(self, size: int, now_ms: int) -> None:
        """Record `size` bytes of throttled replicas."""
        self._rate.record(float(size), now_ms)

    def exceeded(self, now_ms: int) -> bool:
        """Return whether the rate exceeds the limit."""
        return self._rate.measure(now_ms) > self._limit

    def _settle(self) -> None:
        self.limited = bool(self._throttled) and self._limit < UNLIMITED


def _partitions_of(replicas: Iterable[str], broker_id: int) -> Iterable[int]:
    for replica in replicas:
        partition, _, broker = replica.strip().partition(":")
        if broker.strip() == str(broker_id):
            yield int(partition)
