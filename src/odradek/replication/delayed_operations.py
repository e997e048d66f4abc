"""Purgatories of a broker's partitions, and the wake-ups that a request has caused and not yet performed."""

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
    """Collector of changed partitions; `drain` wakes the waiting requests, after all changes of a request.

    Followers with a session are told at once. They look at the changes at the end of the loop iteration (`subscriptions`).

    A completed operation may lead to a new request, such as an append of a coordinator after a commit. Its changes join the collection and
    the outermost `drain` handles them, so the stack stays flat.
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
        """Call `listener` during each drain of a `partition_changed` call. Return a function that ends the calls."""
        self._listeners.setdefault(partition, []).append(listener)

        def stop() -> None:
            listeners = self._listeners.get(partition, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners:
                self._listeners.pop(partition, None)

        return stop

    def log_end_moved(self, partition: TopicPartition, size: int = 0) -> None:
        """Note an append of `size` bytes of records that only followers may read yet."""
        if self.followers.by_partition:
            self.followers.changed(partition, size)
        if partition in self.fetch.watchers:
            self._changed.setdefault(partition, False)

    def partition_changed(self, partition: TopicPartition, size: int = 0) -> None:
        """Note a change of the partition's high watermark, low watermark, leadership or existence, which all waiting requests may see.

        `size` is how many bytes of records were appended with the change.
        """
        if self.followers.by_partition:
            self.followers.changed(partition, size)
        # A request that begins to wait after the change has seen it, so only requests that wait now matter; mostly none do.
        if (
            partition in self.fetch.watchers
            or partition in self.acks.queues
            or partition in self._listeners
            or partition in self.produce.watchers
            or partition in self.delete_records.watchers
        ):
            self._changed[partition] = True

    def drain(self) -> None:
        """Wake the requests that wait for the partitions that changed."""
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
                # The listener's error must fail neither the request that made the change nor other waiting requests.
                logger.exception("a callback of %s failed", partition)

    def drain_soon(self) -> None:
        """Schedule `drain` for the next loop iteration, once for all changes until then."""
        if self._changed and not self._drain_due:
            self._drain_due = True
            self._clock.call_later(0, self._drain_now)

    def _drain_now(self) -> None:
        self._drain_due = False
        self.drain()

    def close(self) -> None:
        """Answer every waiting request with the data that is available."""
        self.acks.close()
        for purgatory in (self.produce, self.fetch, self.delete_records):
            purgatory.close()
