"""Wait of a test's event loop. `interop.waiting` has those of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Poll every millisecond of the loop's clock until the condition holds. Raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (the condition is about other processes or sockets; there is no event to wait for)
            await asyncio.sleep(0.001)
