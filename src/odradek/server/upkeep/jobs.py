"""Executor calls for slow work, and periodic tasks on the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from odradek.base.deferred import Deferred
from odradek.base.timing import Alarm

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from odradek.base.clock import Clock
    from odradek.server.requests.throttling import Throttling

logger = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], Deferred[None] | None]
"""One run of a task; returns a Deferred when the run continues in an executor."""

Pool = Callable[[Callable[[], None]], Deferred[None]]
"""Function that runs an executor call in a thread pool."""


class Jobs:
    """Runner of blocking functions in the loop's executor; the simulator's loop runs them inline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.throttling: Throttling | None = None
        """Quotas of clients, which count the work of requests in executor calls; None while no client has a quota."""

    def run(self, job: Callable[[], T]) -> Deferred[T]:
        """Return the result of `job`, which runs in another thread; callbacks run on the loop."""
        return self._run(None, job)

    def apart(self, job: Callable[[], T]) -> Deferred[T]:
        """Return the result of `job`, which runs in its own thread that ends with the job. Use it for work that waits for an external
        system (an HTTP server, a name server).

        TLS, SCRAM and fsync share the threads of `run`; no external system may block those.
        """
        from concurrent.futures import ThreadPoolExecutor

        executor = ThreadPoolExecutor(1, "apart")
        try:
            return self._run(executor, job)
        finally:
            executor.shutdown(wait=False)

    @contextmanager
    def pool(self, threads: int) -> Generator[Pool]:
        """Yield a function like `run`, with a pool of `threads` threads that shuts down at the end of the block."""
        from concurrent.futures import ThreadPoolExecutor

        executor = ThreadPoolExecutor(threads, "pool")
        try:
            yield lambda job: self._run(executor, job)
        finally:
            executor.shutdown(wait=False)

    def _run(self, executor: Executor | None, job: Callable[[], T]) -> Deferred[T]:
        result: Deferred[T] = Deferred()

        def finished(future: asyncio.Future[T]) -> None:
            if future.cancelled():
                result.fail(asyncio.CancelledError())
            elif (error := future.exception()) is not None:
                result.fail(error)
            else:
                result.complete(future.result())

        if self.throttling is not None:
            job = self.throttling.timed(job)
        self._loop.run_in_executor(executor, job).add_done_callback(finished)
        return result


class Task:
    """Task that runs every `interval_s` seconds, counted from the end of the last run, so that runs never overlap."""

    def __init__(self, name: str, interval_s: float, work: Work, clock: Clock, *, delay_s: float | None = None) -> None:
        self.name = name
        self._interval_s = interval_s
        self._work = work
        self._alarm = Alarm(clock, self._run)
        self._alarm.set(interval_s if delay_s is None else delay_s)

    def stop(self) -> None:
        """Begin no further run; a run in an executor continues to its end."""
        self._alarm.close()

    def _run(self) -> None:
        try:
            pending = self._work()
        except Exception:
            logger.exception("the task %s failed", self.name)
            pending = None
        if pending is None:
            self._alarm.set(self._interval_s)
        else:
            pending.add_callback(self._finished)

    def _finished(self, done: Deferred[None]) -> None:
        if done.error is not None:
            logger.error("the task %s failed", self.name, exc_info=done.error)
        self._alarm.set(self._interval_s)
