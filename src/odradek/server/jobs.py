"""Slow work off the loop, regular work on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from odradek.base.clock import Clock, TimerHandle
from odradek.base.deferred import Deferred

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from odradek.server.throttling import Throttling

logger = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], Deferred[None] | None]
"""A run of a task; a Deferred where it goes on in an executor."""

Pool = Callable[[Callable[[], None]], Deferred[None]]
"""Runs a job in a thread of a pool."""


class Jobs:
    """Runs blocking functions in the loop's executor; the simulator's loop runs them inline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.throttling: Throttling | None = None
        """Only while clients have quotas: what a request has done here counts."""

    def run(self, job: Callable[[], T]) -> Deferred[T]:
        """The result of `job`, which runs in another thread; callbacks run on the loop."""
        return self._run(None, job)

    def apart(self, job: Callable[[], T]) -> Deferred[T]:
        """As `run`, in a thread of its own that ends with the job: for what waits for others (an HTTP server, a name server).

        TLS, SCRAM and fsync share the threads of `run`; nobody outside may hold one of those.
        """
        from concurrent.futures import ThreadPoolExecutor

        executor = ThreadPoolExecutor(1, "apart")
        try:
            return self._run(executor, job)
        finally:
            executor.shutdown(wait=False)

    @contextmanager
    def pool(self, threads: int) -> Generator[Pool]:
        """As `run`, in threads that nobody else uses and that go when the block ends."""
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
    """Work that comes back every `interval_s`; counted from the end of the last run, so that runs never overlap."""

    def __init__(self, name: str, interval_s: float, work: Work, clock: Clock, *, delay_s: float | None = None) -> None:
        self.name = name
        self._interval_s = interval_s
        self._work = work
        self._clock = clock
        self._running = False
        self._stopped = False
        self._timer: TimerHandle | None = clock.call_later(interval_s if delay_s is None else delay_s, self._run)

    def stop(self) -> None:
        """No further runs; one in an executor goes on to its end."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        try:
            pending = self._work()
        except Exception:
            logger.exception("the task %s failed", self.name)
            pending = None
        if pending is None:
            self._again()
        else:
            pending.add_callback(self._finished)

    def _finished(self, done: Deferred[None]) -> None:
        if done.error is not None:
            logger.error("the task %s failed", self.name, exc_info=done.error)
        self._again()

    def _again(self) -> None:
        if not self._stopped:
            self._timer = self._clock.call_later(self._interval_s, self._run)


def as_future(loop: asyncio.AbstractEventLoop, deferred: Deferred[T]) -> asyncio.Future[T]:
    """For coroutines of boot and shutdown that wait for a Deferred."""
    future: asyncio.Future[T] = loop.create_future()

    def finished(done: Deferred[T]) -> None:
        if future.done():
            return
        if done.error is not None:
            future.set_exception(done.error)
        else:
            future.set_result(done.result())

    deferred.add_callback(finished)
    return future
