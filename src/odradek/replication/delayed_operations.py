"""The purgatories of a broker's partitions, and the wake-ups a request has caused but not yet performed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.clock import Clock
from odradek.base.ids import TopicPartition
from odradek.replication.acks import Acks
from odradek.replication.purgatory import Purgatory
from odradek.replication.subscriptions import Subscriptions

logger = logging.getLogger(__name__)


class DelayedOperations:
    """Collects which partitions changed; `drain` lets the waiting requests look, after all of a request's changes.

    Followers with a session are told at once, and look by themselves when the loop's turn is over (`subscriptions`).

    Completing an operation may lead to a new request (a coordinator that appends as soon as something is committed): its changes join the
    collection and the outermost `drain` handles them, so the stack stays flat.
    """

    __slots__ = ("_changed", "_clock", "_drain_due", "_draining", "_listeners", "acks", "delete_records", "fetch", "followers", "produce")

    def __init__(self, clock: Clock) -> None:
        self.acks = Acks(clock)
        self.produce: Purgatory[TopicPartition] = Purgatory("Produce", clock)
        self.fetch: Purgatory[TopicPartition] = Purgatory("Fetch", clock)
        self.delete_records: Purgatory[TopicPartition] = Purgatory("DeleteRecords", clock)
        self.followers = Subscriptions(clock, lambda: len(self.acks) + len(self.produce))
        self._changed: dict[TopicPartition, bool] = {}
        self._draining = False
        self._clock = clock
        self._drain_due = False
        self._listeners: dict[TopicPartition, list[Callable[[], object]]] = {}

    def listen(self, partition: TopicPartition, listener: Callable[[], object]) -> Callable[[], None]:
        """Has `listener` called whenever `partition_changed` was, when that is drained; returns how to end that."""
        self._listeners.setdefault(partition, []).append(listener)

        def stop() -> None:
            listeners = self._listeners.get(partition, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners:
                self._listeners.pop(partition, None)

        return stop

    def log_end_moved(self, partition: TopicPartition, size: int = 0) -> None:
        """Records of `size` bytes were appended that only followers may read yet."""
        if self.followers.by_partition:
            self.followers.changed(partition, size)
        if partition in self.fetch.watchers:
            self._changed.setdefault(partition, False)

    def partition_changed(self, partition: TopicPartition, size: int = 0) -> None:
        """The high watermark, the low watermark, the leadership or the existence of the partition changed: everybody may look.

        So they may at `size` bytes of records that were appended.
        """
        if self.followers.by_partition:
            self.followers.changed(partition, size)
        # Whoever begins to wait after the change has seen it: only those who wait by now matter, mostly nobody.
        if (
            partition in self.fetch.watchers
            or partition in self.acks.queues
            or partition in self._listeners
            or partition in self.produce.watchers
            or partition in self.delete_records.watchers
        ):
            self._changed[partition] = True

    def drain(self) -> None:
        """Wakes whoever waits for the partitions that changed."""
        changed = self._changed
        if not changed or self._draining:
            return
        self._draining = True
        try:
            while changed:
                partition = next(iter(changed))
                if changed.pop(partition):
                    self.acks.check(partition)
                    self.produce.check_and_complete(partition)
                    self.fetch.check_and_complete(partition)
                    self.delete_records.check_and_complete(partition)
                    self._tell(partition)
                else:
                    self.fetch.check_and_complete(partition)
        finally:
            self._draining = False

    def _tell(self, partition: TopicPartition) -> None:
        for listener in list(self._listeners.get(partition, ())):
            try:
                listener()
            except Exception:
                # It is not the fault of the request whose change it is told of, and nobody else is to wait for its sake.
                logger.exception("what listens to %s failed", partition)

    def drain_soon(self) -> None:
        """`drain` on the loop's next turn, once for all that changes until then."""
        if self._changed and not self._drain_due:
            self._drain_due = True
            self._clock.call_later(0, self._drain_now)

    def _drain_now(self) -> None:
        self._drain_due = False
        self.drain()

    def close(self) -> None:
        """Answers everything that still waits with what there is."""
        self.acks.close()
        for purgatory in (self.produce, self.fetch, self.delete_records):
            purgatory.close()
