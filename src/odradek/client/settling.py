"""Waiting in a coroutine: for a Deferred, and with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError

T = TypeVar("T")


async def settled(deferred: Deferred[T]) -> T:
    """Wait for a deferred within the running loop, and return its result."""
    if deferred.done:
        return deferred.result()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: Deferred[T]) -> None:
        if not future.done():
            future.set_result(None)

    deferred.add_callback(wake)
    await future
    return deferred.result()


async def within(what: str, timeout_ms: int | None, action: Awaitable[T]) -> T:
    """Return the outcome of the action. Raises KafkaError(REQUEST_TIMED_OUT) when it takes longer than `timeout_ms` (None: no limit)."""
    limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
    try:
        async with limit:
            return await action
    except TimeoutError:
        if not limit.expired():
            raise
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{what}: no success within {timeout_ms} ms") from None
