"""What a node does beside its queue: fsyncs, truncations, and the writing of snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from odradek.controller.kraft.queue import WorkQueue

Done = Callable[[BaseException | None], None]
"""Told of the error that work raised, or None."""


class Background:
    """Runs blocking work in threads. Without a loop it runs inline."""

    __slots__ = ("_executor", "_loop", "_queue")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, queue: WorkQueue) -> None:
        self._loop = loop
        self._queue = queue
        self._executor: Executor | None = None

    def run(self, work: Callable[[], object], done: Done) -> None:
        """In the loop's executor, beside everything else; `done` is called from the queue, or at once when the queue is closed by then."""
        self._start(None, work, lambda error: self._finished(done, error))

    def run_in_order(self, work: Callable[[], object], done: Done) -> None:
        """As `run`, in the one thread of the metadata log, after what was given to it before."""
        self._start(self._thread(), work, lambda error: self._finished(done, error))

    def suspend_for(self, work: Callable[[], object], rest: Callable[[], None]) -> None:
        """The last thing that a piece of the queue's work does: `work` in the thread of the metadata log, then `rest`, and nothing else of
        the queue in between. What `work` raises ends the queue, as if the piece had raised it.
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
        """Whether the node has stopped."""
        return self._queue.closed

    def close(self) -> None:
        """Nothing more will be given; what runs comes to its end."""
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
        """A thread of its own, so that reads from a slow data disk do not hold up the quorum."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "metadata-log")
        return self._executor
