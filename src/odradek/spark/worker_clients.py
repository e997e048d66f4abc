"""Consumers that the tasks of one Python worker share, one task after the other.

Spark gives many tasks to the same worker. To connect, with the requests before the first record, takes longer than to read a small range.

Only a task that has read its whole range returns its consumer. Such a consumer has neither data nor errors that could reach the next task,
which replaces the assignment. Its connections, metadata and fetch sessions stay. A consumer whose task did not reach the end of its range,
after an error or because Spark stopped early, is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from odradek.client.calls.forks import renew_after_fork
from odradek.client.consumer.blocking import Consumer

IDLE_S = 20.0
"""Seconds after which an unused consumer is closed.

Brokers close idle connections after minutes, Spark ends idle workers after one minute.
"""
MOST_IDLE = 4
"""Maximum number of unused consumers: a worker runs one task at a time, but queries with other options may alternate."""


class _Idle(NamedTuple):
    key: Hashable
    consumer: Consumer
    since: float


class Lease(NamedTuple):
    """Consumer lent to one task."""

    consumer: Consumer
    fresh: bool
    """True if no task has used the consumer before."""


class WorkerClients:
    """Consumers of one process. Threads may share them; a forked child starts without any."""

    def __init__(self, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._reset()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Drop the parent's consumers."""
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._timer: threading.Timer | None = None

    def take(self, key: Hashable, make: Callable[[], Consumer], *, fresh: bool = False) -> Lease:
        """Return the last returned consumer for `key`; a new consumer without a returned one, or if `fresh` is True."""
        if not fresh:
            with self._lock:
                for index in range(len(self._idle) - 1, -1, -1):
                    if self._idle[index].key == key:
                        return Lease(self._idle.pop(index).consumer, fresh=False)
        return Lease(make(), fresh=True)

    def give_back(self, key: Hashable, lease: Lease) -> None:
        """Return a consumer from a task that has read its whole range."""
        if not lease.consumer.at_rest:
            lease.consumer.close()
            return
        with self._lock:
            self._idle.append(_Idle(key, lease.consumer, self._clock()))
            superfluous, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
            self._watch()
        for each in superfluous:
            each.consumer.close()

    def close_idle(self) -> None:
        """Close consumers that have been unused for too long."""
        with self._lock:
            self._timer = None
            now = self._clock()
            ended = [each for each in self._idle if now - each.since >= self._idle_s]
            self._idle = [each for each in self._idle if now - each.since < self._idle_s]
            self._watch()
        for each in ended:
            each.consumer.close()

    def close(self) -> None:
        """Close all unused consumers."""
        with self._lock:
            ended, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for each in ended:
            each.consumer.close()

    @property
    def waiting(self) -> int:
        """Number of unused consumers."""
        return len(self._idle)

    def _watch(self) -> None:
        """Start the timer if consumers are unused and the timer is not running."""
        if self._idle and self._timer is None:
            self._timer = threading.Timer(max(0.05, self._idle[0].since + self._idle_s - self._clock()), self.close_idle)
            self._timer.daemon = True
            self._timer.start()


worker_clients = WorkerClients()
"""Consumers of this process."""
