"""Event loop behind the blocking clients: one daemon thread for all clients of a process.

Why a thread instead of plain sockets driven by the caller: a producer has to send, retry and expire batches while its application computes,
and a group member has to send heartbeats. With one loop there is one transport, one set of timing rules and one thing to test. The cost is
two thread switches per blocking call, never per record. A forked child has no thread: its first use starts a new thread, and clients made
before the fork raise an error instead of hanging (`origin`).

No error of a callback or task ends the thread, because all clients of the process would stop. asyncio lets SystemExit and KeyboardInterrupt
out of `run_forever`; they are logged, and the loop goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from typing import TypeVar

from odradek.base.errors import OdradekError
from odradek.client.calls.origin import Origin
from odradek.client.calls.waiting import wait_in_moments

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class LoopThread:
    """Thread that runs an event loop."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._origin = Origin()
        self._thread = threading.Thread(target=self._run, name="odradek-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except BaseException:
                _LOG.exception("a callback in the clients' event loop failed")
                if self.loop.is_closed():
                    return
            else:
                return

    @property
    def usable(self) -> bool:
        """Return whether the thread runs in this process; a forked child does not have it."""
        return not self._origin.is_forked and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs in the loop, as callbacks do."""
        return threading.current_thread() is self._thread

    def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Call `action` in the loop, await its result, and return the outcome. Ctrl-C cancels the awaitable.

        Raises OdradekError in a forked child, in the loop itself, and when the client was closed or the interpreter shuts down. `action` is
        called in the loop, because a Ctrl-C in this thread could leave behind a coroutine that is never awaited.
        """
        self._origin.check_process()
        if not self.usable:
            raise OdradekError("the clients' event loop has ended: the interpreter is shutting down")
        if self.is_current:
            raise OdradekError("a blocking client must not be called by its own callbacks; pass the work to another thread")
        result: Future[T] = Future()
        try:
            self.loop.call_soon_threadsafe(self._begin, action, result)
            wait_in_moments(lambda seconds: bool(wait([result], seconds).done))
            return result.result()
        except CancelledError:
            raise OdradekError("the call was cancelled because the client was closed") from None
        except BaseException:
            result.cancel()
            raise

    def _begin(self, action: Callable[[], Awaitable[T]], result: Future[T]) -> None:
        if result.cancelled():
            return
        task = self.loop.create_task(_awaited(action))
        task.add_done_callback(partial(_pass_on, result))
        result.add_done_callback(lambda each: self.call_soon(task.cancel) if each.cancelled() else None)

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Run the callback in the loop; may be called from any thread."""
        self.loop.call_soon_threadsafe(callback, *args)


async def _awaited(action: Callable[[], Awaitable[T]]) -> T:
    return await action()


def _pass_on(result: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        result.cancel()
        # This call alone wakes the waiting thread.
        result.set_running_or_notify_cancel()
    elif result.set_running_or_notify_cancel():
        error = task.exception()
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_shared: LoopThread | None = None
_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """Return the process's loop thread, which is started on first use."""
    global _shared  # noqa: PLW0603  (one per process is the point)
    with _lock:
        if _shared is None or not _shared.usable:
            _shared = LoopThread()
        return _shared


def _after_fork() -> None:
    global _shared, _lock  # noqa: PLW0603  (the parent's thread and a lock it may have held are gone)
    _shared = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
