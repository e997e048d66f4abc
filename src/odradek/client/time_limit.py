"""Time limit of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError

T = TypeVar("T")


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
