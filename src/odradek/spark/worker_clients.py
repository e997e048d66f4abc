"""What the tasks of one Python worker share: consumers that they use one after the other.

Spark hands the same worker many tasks, and a connection, with what has to be asked before the first record comes, costs more than a small
range of records.

A consumer comes back only from a task that has read its range to the end: then it has neither data nor errors that could reach the next,
which replaces the assignment. Its connections, its metadata and its fetch session with each broker stay. One of which a task did not read
to the end, for an error or because nobody wanted the rest, is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from odradek.client.consumer.blocking import Consumer
from odradek.client.forks import renew_after_fork

IDLE_S = 20.0
"""For how long a consumer waits for the next task. Brokers close idle connections after minutes, Spark ends idle workers after one."""
MOST_IDLE = 4
"""Consumers that wait at most: a worker has one task at a time, and those of queries with other options may come between."""


class _Idle(NamedTuple):
    key: Hashable
    consumer: Consumer
    since: float


class Lease(NamedTuple):
    """A consumer for one task."""

    consumer: Consumer
    fresh: bool
    """Whether no task has used it before."""


class WorkerClients:
    """The consumers of one process. Safe for several threads, and after a fork: the child begins without any."""

    def __init__(self, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._reset()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin without any."""
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._timer: threading.Timer | None = None

    def take(self, key: Hashable, make: Callable[[], Consumer], *, fresh: bool = False) -> Lease:
        """The consumer that came back last of those made for `key`; a new one where there is none, or a `fresh` one is wanted."""
        if not fresh:
            with self._lock:
                for index in range(len(self._idle) - 1, -1, -1):
                    if self._idle[index].key == key:
                        return Lease(self._idle.pop(index).consumer, fresh=False)
        return Lease(make(), fresh=True)

    def give_back(self, key: Hashable, lease: Lease) -> None:
        """After a task that has read all of the range that it assigned."""
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
        """Closes those that have waited for too long."""
        with self._lock:
            self._timer = None
            now = self._clock()
            ended = [each for each in self._idle if now - each.since >= self._idle_s]
            self._idle = [each for each in self._idle if now - each.since < self._idle_s]
            self._watch()
        for each in ended:
            each.consumer.close()

    def close(self) -> None:
        """Closes all that wait."""
        with self._lock:
            ended, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for each in ended:
            each.consumer.close()

    @property
    def waiting(self) -> int:
        """How many wait for a task."""
        return len(self._idle)

    def _watch(self) -> None:
        """One timer at a time, which ends when nothing waits any more."""
        if self._idle and self._timer is None:
            self._timer = threading.Timer(max(0.05, self._idle[0].since + self._idle_s - self._clock()), self.close_idle)
            self._timer.daemon = True
            self._timer.start()


worker_clients = WorkerClients()
"""Those of this process."""
