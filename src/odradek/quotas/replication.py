"""Replicas that catch up are kept from taking all there is (KIP-73; org.apache.kafka.server.quota.ReplicationQuotaManager).

One quota for what a broker sends as a leader, one for what it fetches as a follower. They hold for the replicas that the topics name, and
only while these are not in sync. What is moved is counted even when it is too much: the rate is over then, and the next has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.quotas.samples import UNLIMITED, SimpleRate, Window


class ReplicationQuota:
    """Bytes a second of the throttled replicas together."""

    __slots__ = ("_limit", "_rate", "_throttled", "limited")

    def __init__(self, window: Window) -> None:
        self._rate = SimpleRate(window)
        self._limit = UNLIMITED
        self._throttled: dict[str, frozenset[int] | None] = {}
        """Topic -> partitions, None for all."""
        self.limited = False
        """Whether anything can be throttled at all."""

    def limit(self, rate: int) -> None:
        """Bytes a second from now on."""
        self._limit = float(rate)
        self._settle()

    def throttle(self, topic: str, replicas: str, broker_id: int) -> None:
        """What leader.replication.throttled.replicas, or the follower's, of the topic says: "*", or partition:broker, ...; "" for none."""
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
        """Whether this replica is among those that are throttled."""
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or partition in partitions

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes of throttled replicas have been moved."""
        self._rate.record(float(size), now_ms)

    def exceeded(self, now_ms: int) -> bool:
        """Whether nothing more may be moved for now."""
        return self._rate.measure(now_ms) > self._limit

    def _settle(self) -> None:
        self.limited = bool(self._throttled) and self._limit < UNLIMITED


def _partitions_of(replicas: Iterable[str], broker_id: int) -> Iterable[int]:
    for replica in replicas:
        partition, _, broker = replica.strip().partition(":")
        if broker.strip() == str(broker_id):
            yield int(partition)
