"""Delayed operations: requests that wait for something to happen to a partition, or for their time to run out.

1. Whoever cannot answer yet makes a `DelayedOperation` and hands it to `Purgatory.watch` with the keys (partitions) it waits for.
2. Whoever changes a partition calls `Purgatory.check_and_complete(key)` when the change is finished, never in the middle of it; several
   changes in one request are collected in `delayed_operations.DelayedOperations` and looked at after the last of them.
3. An operation completes once: by a check, by its deadline or by `Purgatory.close`. Completion takes it off every watcher list and cancels
   its deadline, so nothing is left behind to be purged (Kafka's reaper thread has no counterpart here).

A check tells the operation which key changed, so that one waiting for a thousand partitions looks at one of them.
(org.apache.kafka.server.purgatory.DelayedOperation, DelayedOperationPurgatory)
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from odradek.base.clock import Clock
from odradek.replication.deadlines import Deadline, Deadlines

K = TypeVar("K", bound=Hashable)

logger = logging.getLogger(__name__)

MAX_OPERATIONS = 65_536
"""How many operations one purgatory holds; beyond it an operation completes at once, with what it has."""


class DelayedOperation(Generic[K]):
    """One waiting request. Subclasses say when it is satisfied and what happens then."""

    __slots__ = ("_deadline", "_keys", "_purgatory", "done")

    def __init__(self) -> None:
        self.done = False
        self._deadline: Deadline | None = None
        self._purgatory: Purgatory[K] | None = None
        self._keys: Sequence[K] = ()

    def try_complete(self, key: K) -> bool:
        """Looks at the partition that changed; calls `force_complete` and returns True when the wait is over."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answers the request; runs exactly once, with the operation already off all lists."""
        raise NotImplementedError

    def force_complete(self) -> bool:
        """Ends the wait whatever the state; False when it had ended before."""
        if self.done:
            return False
        self.done = True
        if self._purgatory is not None:
            self._purgatory.forget(self, self._keys, self._deadline)
            self._purgatory = None
            self._deadline = None
        self.on_complete()
        return True

    @property
    def kind(self) -> str:
        """What its purgatory counts it as when its time is up."""
        return ""

    def expire(self) -> bool:
        """Its time is up."""
        if self._purgatory is not None:
            self._purgatory.expired[self.kind] = self._purgatory.expired.get(self.kind, 0) + 1
        return self.force_complete()

    def park(self, purgatory: Purgatory[K], keys: Sequence[K], deadline: Deadline) -> None:
        """For `Purgatory.watch` only."""
        self._purgatory = purgatory
        self._keys = keys
        self._deadline = deadline


class Purgatory(Generic[K]):
    """The operations of one kind, by the keys they wait for."""

    __slots__ = ("_deadlines", "_max_operations", "_operations", "expired", "name", "watchers")

    def __init__(self, name: str, clock: Clock, max_operations: int = MAX_OPERATIONS) -> None:
        self.name = name
        self._deadlines = Deadlines(clock)
        self._max_operations = max_operations
        self._operations: dict[DelayedOperation[K], None] = {}
        self.expired: dict[str, int] = {}
        """How many have run out of time, by kind."""
        self.watchers: dict[K, dict[DelayedOperation[K], None]] = {}
        """Key -> the operations that wait for it, oldest first. For others to look at only."""

    def __len__(self) -> int:
        return len(self._operations)

    def watched(self, key: K) -> int:
        """How many operations wait for `key`."""
        watchers = self.watchers
        return len(watchers[key]) if key in watchers else 0

    def watch(self, operation: DelayedOperation[K], keys: Sequence[K], timeout_ms: int) -> None:
        """Keeps the operation until a check completes it or `timeout_ms` have passed.

        The caller has just seen that it cannot complete yet. With the purgatory full, the operation ends at once as if timed out.
        """
        if len(self._operations) >= self._max_operations:
            operation.force_complete()
            return
        self._operations[operation] = None
        watchers = self.watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: None}
            else:
                waiting[operation] = None
        operation.park(self, keys, self._deadlines.add(timeout_ms / 1000, operation.expire))

    def check_and_complete(self, key: K) -> int:
        """Lets every operation that waits for `key` look at it, oldest first; returns how many completed."""
        waiting = self.watchers.get(key)
        if waiting is None:
            return 0
        completed = 0
        for operation in list(waiting):
            try:
                if not operation.done and operation.try_complete(key):
                    completed += 1
            except Exception:
                # One answer that cannot be given must not keep the others waiting.
                logger.exception("%s: a delayed operation on %s failed", self.name, key)
        return completed

    def forget(self, operation: DelayedOperation[K], keys: Sequence[K], deadline: Deadline | None) -> None:
        """Takes a completed operation off all lists."""
        self._operations.pop(operation, None)
        if deadline is not None:
            self._deadlines.cancel(deadline)
        watchers = self.watchers
        for key in keys:
            waiting = watchers.get(key)
            if waiting is not None:
                waiting.pop(operation, None)
                if not waiting:
                    del watchers[key]

    def close(self) -> None:
        """Completes everything that still waits, as at shutdown."""
        for operation in list(self._operations):
            try:
                operation.force_complete()
            except Exception:
                logger.exception("%s: a delayed operation failed at shutdown", self.name)
        self._deadlines.close()
