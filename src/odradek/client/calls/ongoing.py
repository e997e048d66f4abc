"""Calls that go on after their caller has left.

Some calls change something in several steps (the end of a transaction, close()). Such a call must not stop between two steps because its
caller is cancelled, times out or is interrupted by Ctrl-C. The rule for all clients:

1. The call runs in a separate task (`Ongoing.run`), and its caller only waits for the task. A caller that leaves changes nothing.
2. A second, identical call joins the task, even after the task's end: the outcome goes to the first caller that stayed.
3. Another call while the task runs either waits behind the task or is refused by name; it never takes the task for its own. Arguments are
   part of a call's identity: calls with arguments (`TransactionManager.send_offsets`) are not joined; each runs, in the order of the calls.
4. Waiting is bounded by the caller (`timeout_ms`); for close(), also by the time after which the task cuts its own work short.
5. close() ends the call under way; its callers get ClientClosed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.failures import ClientClosed


class Ongoing:
    """Place for one call at a time; belongs to the event loop."""

    def __init__(self) -> None:
        self._name = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str | None:
        """Name of the call under way, None without a call."""
        return None if self._task is None or self._task.done() else self._name

    async def run(self, name: str, action: Callable[[], Coroutine[Any, Any, None]], timeout_ms: int | None = None) -> None:
        """Begin the call, or join the call of that name, and raise its error. `name` must be the name under way, if there is one.

        Raises KafkaError(REQUEST_TIMED_OUT) when the call takes longer than `timeout_ms`, ClientClosed when `close` ended the call.
        """
        task = self._task
        if task is None or self._name != name:
            task = begun(action())
            self._name, self._task = name, task
        await waited(name, task, timeout_ms)
        if self._task is task:
            self._task = None
        task.result()

    async def settled(self, timeout_ms: int | None = None) -> None:
        """Wait until no call is under way, whatever its outcome. Raises KafkaError(REQUEST_TIMED_OUT) after `timeout_ms`."""
        if self._task is not None:
            await waited(self._name, self._task, timeout_ms)
            self._task = None

    def forget(self) -> None:
        """Drop the outcome of a call that has ended, so that a later call of the same name does not join the old call."""
        if self._task is not None and self._task.done():
            self._task = None

    async def close(self) -> None:
        """End the call under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def begun(action: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Return a new task whose error may stay unread."""
    task = asyncio.create_task(action)
    task.add_done_callback(_seen)
    return task


async def waited(name: str, task: asyncio.Task[None], timeout_ms: int | None) -> None:
    """Wait for the end of the task, which goes on when the waiting is cancelled.

    Raises KafkaError(REQUEST_TIMED_OUT) when the task takes longer than `timeout_ms` (None: no limit), ClientClosed when it was cancelled.
    """
    await asyncio.wait([task], timeout=None if timeout_ms is None else timeout_ms / 1000)
    if not task.done():
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{name} did not end within {timeout_ms} ms (max.block.ms); it can be called again"
        ) from None
    if task.cancelled():
        raise ClientClosed(f"{name}: the client was closed")


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
