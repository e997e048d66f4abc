"""Produce requests with acks=-1 that wait for one partition, by the offset that acknowledges them.

They stand in a queue per partition, in the order of those offsets: a high watermark answers as many as stand at the front, and looks at one
more. (Kafka's purgatory asks every request that waits for the partition, at every advance.) Requests that wait for several partitions
are `delayed_produce.DelayedProduce`.

The end of the leadership, of the partition or of its log directory answers the whole queue. A request whose time is up leaves at once,
wherever it stands: its records stay in the log, and may yet become committed.
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
"""Requests that have left a queue in the middle, and are not worth sweeping out."""


class _Waiting:
    """One request. `append` is the part of its answer that is still open."""

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
        """How many of them are done and not swept out yet."""

    def insert(self, newcomer: _Waiting) -> None:
        """Mostly at the end; a repeated batch is acknowledged by the offset it got the first time."""
        waiting = self.waiting
        required = newcomer.append.required_offset
        index = len(waiting)
        # Those of a partition of the same name that is gone stay in front: they are answered first, whatever they wait for.
        while index and waiting[index - 1].append.required_offset > required and waiting[index - 1].partition is newcomer.partition:
            index -= 1
        if index == len(waiting):
            waiting.append(newcomer)
        else:
            waiting.insert(index, newcomer)

    def leave(self) -> None:
        """One of them is done, out of its turn."""
        self.left += 1
        waiting = self.waiting
        while waiting and waiting[0].done:
            waiting.popleft()
            self.left -= 1
        if self.left > _FEW and 2 * self.left > len(waiting):
            self.waiting = deque(one for one in waiting if not one.done)
            self.left = 0


class Acks:
    """All of a broker. At most `max_waiting` wait; beyond it a request is answered at once, as if its time were up."""

    __slots__ = ("_deadlines", "_max_waiting", "_waiting", "expired", "queues")

    def __init__(self, clock: Clock, max_waiting: int = MAX_OPERATIONS) -> None:
        self._deadlines = Deadlines(clock)
        self._max_waiting = max_waiting
        self._waiting = 0
        self.expired = 0
        """How many have run out of time."""
        self.queues: dict[TopicPartition, _Queue] = {}
        """Those that somebody waits in. For others to look at only."""

    def __len__(self) -> int:
        return self._waiting

    def wait(self, partition: Partition, append: PartitionAppend, appends: Appends, timeout_ms: int) -> Applied[Appends]:
        """`appends`, of which only `append` is open, once `partition.reached` says how that ends or `timeout_ms` are over.

        The caller has just seen that it is open.
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
        """Answers those at the front for whom the partition has come far enough, or to an end; returns how many."""
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
        """Answers everything that still waits, as at shutdown."""
        queues, self.queues = self.queues, {}
        self._waiting = 0
        for queue in queues.values():
            for one in queue.waiting:
                if not one.done:
                    self._answer(one, ErrorCode.REQUEST_TIMED_OUT)
        self._deadlines.close()

    def _expire(self, one: _Waiting) -> None:
        if one.done:
            return  # What the answer to another one has led to has answered it.
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
            # One answer that cannot be given must not keep the others waiting.
            logger.exception("the acknowledgement of %s failed", one.append)
