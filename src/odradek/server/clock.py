"""Clock of a real process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from odradek.base.clock import TimerHandle


class LoopClock:
    """`base.clock.Clock` on an event loop: wall time from the system, monotonic time and timers from the loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Not loop.time(): uvloop counts whole milliseconds, too coarse for latencies.
    monotonic = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        if delay_s <= 0:
            return self._loop.call_soon(callback, *args)
        return self._loop.call_later(delay_s, callback, *args)
