"""Produce requests with acks=-1 that wait for one partition, ordered by the offset that acknowledges them.

Each partition has a queue in the order of those offsets. A new high watermark answers the requests at the front of the queue, and looks at
one more. (Kafka's purgatory checks every request of the partition at every advance.) `delayed_produce.DelayedProduce` handles requests that
wait for several partitions.

The end of the leadership, of the partition or of its log directory answers the whole queue. A request that times out leaves the queue at
once, at any position. Its records stay in the log, and may still become committed.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.deferred import Applied
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.replication.deadlines import Deadline, Deadlines
from odradek.replication.purgatory import MAX_OPERATIONS

if TYPE_CHECKING:
    from odradek.replication.delayed_produce import Appends, PartitionAppend
    from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

_FEW = 64
"""Most requests that are done but stay in the middle of a queue before a sweep is worth its cost."""


class _Waiting:
    """Waiting request. `append` is the only part of its response that is pending."""

    __slots__ = ("append", "appends", "deadline", "done", "partition", "result")

    def __init__(self, partition: Partition, append: PartitionAppend, appends: Appends) -> None:
        self.partition = partition
        self.append = append
        self.appends = appends
        self.result: Applied[Appends] = Applied()
        self.deadline: Deadline | None = None
        self.done = False


class _Queue:
    __slots__ = ("left", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.left = 0
        """Number of done requests in `waiting` that no sweep has removed yet."""

    def insert(self, newcomer: _Waiting) -> None:
        """Insert a request by its offset, mostly at the end. A repeated batch is acknowledged by the offset of its first append."""
        waiting = self.waiting
        required = newcomer.append.required_offset
        index = len(waiting)
        # Requests of a deleted partition of the same name stay in front: they are answered first, whatever their offset.
        while index and waiting[index - 1].append.required_offset > required and waiting[index - 1].partition is newcomer.partition:
            index -= 1
        if index == len(waiting):
            waiting.append(newcomer)
        else:
            waiting.insert(index, newcomer)

    def leave(self) -> None:
        """Count a request that is done before the requests ahead of it, and sweep the queue when many are."""
        self.left += 1
        waiting = self.waiting
        while waiting and waiting[0].done:
            waiting.popleft()
            self.left -= 1
        if self.left > _FEW and 2 * self.left > len(waiting):
            self.waiting = deque(one for one in waiting if not one.done)
            self.left = 0


class Acks:
    """Waiting requests of a broker. At most `max_waiting` wait; a further request is answered at once, as if it had timed out."""

    __slots__ = ("_deadlines", "_max_waiting", "_waiting", "expired", "queues")

    def __init__(self, clock: Clock, max_waiting: int = MAX_OPERATIONS) -> None:
        self._deadlines = Deadlines(clock)
        self._max_waiting = max_waiting
        self._waiting = 0
        self.expired = 0
        """Number of requests that have timed out."""
        self.queues: dict[TopicPartition, _Queue] = {}
        """Queues that are not empty, read-only for other classes."""

    def __len__(self) -> int:
        return self._waiting

    def wait(self, partition: Partition, append: PartitionAppend, appends: Appends, timeout_ms: int) -> Applied[Appends]:
        """Return `appends` once `partition.reached` decides about `append`, or `timeout_ms` have passed.

        The caller has just checked that `append` is pending, and that no other element of `appends` is.
        """
        one = _Waiting(partition, append, appends)
        if self._waiting >= self._max_waiting:
            self._answer(one, ErrorCode.REQUEST_TIMED_OUT)
            return one.result
        key = partition.topic_partition
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = _Queue()
        queue.insert(one)
        self._waiting += 1
        one.deadline = self._deadlines.add(timeout_ms / 1000, lambda: self._expire(one))
        return one.result

    def check(self, key: TopicPartition) -> int:
        """Answer the requests at the front whose offset is reached, or whose wait has ended with an error. Return their number."""
        queue = self.queues.get(key)
        if queue is None:
            return 0
        ready: list[tuple[_Waiting, ErrorCode]] = []
        waiting = queue.waiting
        while waiting:
            first = waiting[0]
            if first.done:
                queue.left -= 1
            else:
                error = first.partition.reached(first.append.required_offset)
                if error is None:
                    break
                ready.append((first, error))
            waiting.popleft()
        if not waiting:
            del self.queues[key]
        self._waiting -= len(ready)
        for one, error in ready:
            self._answer(one, error)
        return len(ready)

    def close(self) -> None:
        """Answer every waiting request with REQUEST_TIMED_OUT, as at shutdown."""
        queues, self.queues = self.queues, {}
        self._waiting = 0
        for queue in queues.values():
            for one in queue.waiting:
                if not one.done:
                    self._answer(one, ErrorCode.REQUEST_TIMED_OUT)
        self._deadlines.close()

    def _expire(self, one: _Waiting) -> None:
        if one.done:
            return  # the answer to another request has led to this one's answer
        key = one.partition.topic_partition
        queue = self.queues[key]
        self.expired += 1
        one.done = True
        queue.leave()
        if not queue.waiting:
            del self.queues[key]
        self._waiting -= 1
        self._answer(one, ErrorCode.REQUEST_TIMED_OUT)

    def _answer(self, one: _Waiting, error: ErrorCode) -> None:
        one.done = True
        if one.deadline is not None:
            self._deadlines.cancel(one.deadline)
        one.append.error = error
        try:
            one.result.complete(one.appends)
        except Exception:
            # A failing answer must not keep other requests waiting.
            logger.exception("the acknowledgement of %s failed", one.append)
