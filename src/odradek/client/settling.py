"""Waiting for a Deferred in a coroutine."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from odradek.base.deferred import Deferred

T = TypeVar("T")


async def settled(deferred: Deferred[T]) -> T:
    """Waits for a deferred within the running loop."""
    if deferred.done:
        return deferred.result()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: Deferred[T]) -> None:
        if not future.done():
            future.set_result(None)

    deferred.add_callback(wake)
    await future
    return deferred.result()
