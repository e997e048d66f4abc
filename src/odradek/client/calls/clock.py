"""Clock of a client: the operating system's time, and the timers of its event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from odradek.base.clock import TimerHandle


class ClientClock:
    """`base.clock.Clock` on an event loop. Monotonic time is the loop's, so that a virtual loop has virtual time."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time_ms(self) -> int:
        """Return Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return the seconds of the loop's clock."""
        return self._loop.time()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Start a timer of the loop that calls `callback` after `delay_s` seconds."""
        return self._loop.call_later(max(0.0, delay_s), callback, *args)
