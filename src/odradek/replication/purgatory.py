"""Delayed operations: requests that wait for a change of a partition, or for their timeout.

1. A request that cannot be answered yet becomes a `DelayedOperation`; `Purgatory.watch` takes it with the keys (partitions) that it waits
   for.
2. Code that changes a partition calls `Purgatory.check_and_complete(key)` when the change is finished, never in the middle.
   `delayed_operations.DelayedOperations` collects the changes of one request, and checks them after the last.
3. An operation completes once: by a check, by its deadline or by `Purgatory.close`. Completion removes it from every watcher list and
   cancels its deadline, so no entry has to be purged later. (Kafka's reaper thread has no counterpart here.)

A check passes the key that changed, so that an operation on a thousand partitions looks at one of them.
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
"""Most operations in one purgatory; a further operation completes at once, with the data that it has."""


class DelayedOperation(Generic[K]):
    """Waiting request. Subclasses define when it is satisfied and how it is answered."""

    __slots__ = ("_deadline", "_keys", "_purgatory", "done")

    def __init__(self) -> None:
        self.done = False
        self._deadline: Deadline | None = None
        self._purgatory: Purgatory[K] | None = None
        self._keys: Sequence[K] = ()

    def try_complete(self, key: K) -> bool:
        """Check the partition that changed. Call `force_complete` and return True when the wait is over."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answer the request. Runs exactly once, after the operation has left all lists."""
        raise NotImplementedError

    def force_complete(self) -> bool:
        """End the wait in any state. Return False when it had ended before."""
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
        """Name under which the purgatory counts this operation when it times out."""
        return ""

    def expire(self) -> bool:
        """Count the timeout and end the wait."""
        if self._purgatory is not None:
            self._purgatory.expired[self.kind] = self._purgatory.expired.get(self.kind, 0) + 1
        return self.force_complete()

    def park(self, purgatory: Purgatory[K], keys: Sequence[K], deadline: Deadline) -> None:
        """Store the purgatory's entries. Called only by `Purgatory.watch`."""
        self._purgatory = purgatory
        self._keys = keys
        self._deadline = deadline


class Purgatory(Generic[K]):
    """Operations of one kind, by the keys that they wait for."""

    __slots__ = ("_deadlines", "_max_operations", "_operations", "expired", "name", "watchers")

    def __init__(self, name: str, clock: Clock, max_operations: int = MAX_OPERATIONS) -> None:
        self.name = name
        self._deadlines = Deadlines(clock)
        self._max_operations = max_operations
        self._operations: dict[DelayedOperation[K], None] = {}
        self.expired: dict[str, int] = {}
        """Number of operations that have timed out, by kind."""
        self.watchers: dict[K, dict[DelayedOperation[K], None]] = {}
        """Operations that wait for each key, oldest first; read-only for other classes."""

    def __len__(self) -> int:
        return len(self._operations)

    def watched(self, key: K) -> int:
        """Return how many operations wait for `key`."""
        watchers = self.watchers
        return len(watchers[key]) if key in watchers else 0

    def watch(self, operation: DelayedOperation[K], keys: Sequence[K], timeout_ms: int) -> None:
        """Keep the operation until a check completes it or `timeout_ms` have passed.

        The caller has just checked that the operation cannot complete yet. When the purgatory is full, the operation completes at once as
        if timed out.
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
        """Let every operation that waits for `key` check it, oldest first. Return how many completed."""
        waiting = self.watchers.get(key)
        if waiting is None:
            return 0
        completed = 0
        for operation in list(waiting):
            try:
                if not operation.done and operation.try_complete(key):
                    completed += 1
            except Exception:
                # A failing answer must not keep other operations waiting.
                logger.exception("%s: a delayed operation on %s failed", self.name, key)
        return completed

    def forget(self, operation: DelayedOperation[K], keys: Sequence[K], deadline: Deadline | None) -> None:
        """Remove a completed operation from all lists."""
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
        """Complete every waiting operation, as at shutdown."""
        for operation in list(self._operations):
            try:
                operation.force_complete()
            except Exception:
                logger.exception("%s: a delayed operation failed at shutdown", self.name)
        self._deadlines.close()
