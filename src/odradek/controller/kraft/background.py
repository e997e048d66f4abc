"""What a node does beside its queue: fsyncs and the writing of snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.controller.kraft.queue import WorkQueue


class Background:
    """Runs blocking work in the executor of a loop. Without a loop it runs inline, and what follows on it comes from the queue."""

    __slots__ = ("_loop", "_queue")

    def __init__(self, loop: asyncio.AbstractEventLoop | None, queue: WorkQueue) -> None:
        self._loop = loop
        self._queue = queue

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """`done` is called on the node's thread with the error that `work` raised, or None."""
        if self._loop is not None:
            future = self._loop.run_in_executor(None, work)
            future.add_done_callback(lambda finished: done(finished.exception()))
            return
        error: BaseException | None = None
        try:
            work()
        except OSError as caught:
            error = caught
        self._queue.put(lambda: done(error))
