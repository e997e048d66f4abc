"""Work beside a node's queue: fsyncs, truncations and writes of snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from odradek.controller.kraft.queue import WorkQueue

Done = Callable[[BaseException | None], None]
"""Callback for the exception that the work raised, or None."""


class Background:
    """Runner of blocking work in threads, or inline without a loop."""

    __slots__ = ("_executor", "_loop", "_queue")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, queue: WorkQueue) -> None:
        self._loop = loop
        self._queue = queue
        self._executor: Executor | None = None

    def run(self, work: Callable[[], object], done: Done) -> None:
        """Run the work in the loop's executor. `done` is called from the queue, or at once if the queue is closed by then."""
        self._start(None, work, lambda error: self._finished(done, error))

    def run_in_order(self, work: Callable[[], object], done: Done) -> None:
        """Run the work in the thread of the metadata log, after earlier work there. `done` is called as for `run`."""
        self._start(self._thread(), work, lambda error: self._finished(done, error))

    def suspend_for(self, work: Callable[[], object], rest: Callable[[], None]) -> None:
        """Run `work` in the thread of the metadata log, then `rest` in the queue. No other work item runs in between.

        The call must be the last action of a work item. An exception of `work` ends the queue as if the item had raised it.
        """
        if self._loop is None:
            work()
            rest()
            return

        def finished(error: BaseException | None) -> None:
            def go_on() -> None:
                if error is not None:
                    raise error
                rest()

            self._queue.resume(go_on)

        self._queue.suspend()
        self._start(self._thread(), work, finished)

    @property
    def closed(self) -> bool:
        """Return whether the node has stopped."""
        return self._queue.closed

    def close(self) -> None:
        """Stop accepting work. Running work is finished."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def _start(self, executor: Executor | None, work: Callable[[], object], finished: Done) -> None:
        if self._loop is None:
            error: BaseException | None = None
            try:
                work()
            except OSError as caught:
                error = caught
            finished(error)
        else:
            future = self._loop.run_in_executor(executor, work)
            future.add_done_callback(lambda done: finished(done.exception()))

    def _finished(self, done: Done, error: BaseException | None) -> None:
        if self._queue.closed:
            done(error)
        else:
            self._queue.put(lambda: done(error))

    def _thread(self) -> Executor:
        """Return the thread of the metadata log. With a separate thread, reads from a slow data disk do not delay the quorum."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "metadata-log")
        return self._executor
