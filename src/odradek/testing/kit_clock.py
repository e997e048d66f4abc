"""A clock for a broker on a real event loop that a test can put forward.

    clock = AdjustableClock(loop)
    await clock.advance(3600)

Between advances it goes as the system's does. An advance moves it in steps. In each step the timers that have become due run one after the
other, in the order in which they would have, and what each of them leads to on this node ends before the next one runs: so a broker keeps
its session with its own controller, however far the clock is put forward.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

_STEP_S: Final = 1.0
_MOST_STEPS: Final = 200
_FEW: Final = 64
"""Cancelled timers that may wait to be forgotten."""


class _Timer:
    """A callback that is due at a time of the clock."""

    __slots__ = ("_clock", "arguments", "callback", "due_s", "handle")

    def __init__(self, clock: AdjustableClock, due_s: float, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._clock = clock
        self.due_s = due_s
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.callback is not None:
            self._end()
            self._clock.cancelled()

    def run(self) -> None:
        """Runs what is due; a cancelled timer does nothing."""
        callback, arguments = self.callback, self.arguments
        if callback is not None:
            self._end()
            self._clock.cancelled()
            callback(*arguments)

    def _end(self) -> None:
        self.callback, self.arguments = None, ()
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


class AdjustableClock:
    """`base.clock.Clock` on an event loop, ahead of the system's clocks by `ahead_s` seconds. Use it in the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], Awaitable[None]], ahead_s: float = 0.0) -> None:
        """`settle` is awaited after each timer of an advance: it returns when what the timer began has ended."""
        self.ahead_s = ahead_s
        self._loop = loop
        self._settle = settle
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0

    def time_ms(self) -> int:
        """Milliseconds since the Unix epoch, on a clock that is ahead."""
        return time.time_ns() // 1_000_000 + round(self.ahead_s * 1000)

    def monotonic(self) -> float:
        """Seconds; differences include what the clock was put forward by meanwhile."""
        return time.monotonic() + self.ahead_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle | _Timer:
        """See `Clock.call_later`."""
        if delay_s <= 0:
            return self._loop.call_soon(callback, *args)
        timer = _Timer(self, self.monotonic() + delay_s, callback, args)
        heapq.heappush(self._timers, (timer.due_s, next(self._numbers), timer))
        self._arm(timer)
        return timer

    def _arm(self, timer: _Timer) -> None:
        timer.handle = self._loop.call_later(max(0.0, timer.due_s - self.monotonic()), timer.run)

    def cancelled(self) -> None:
        """A timer has run or was cancelled (the timers tell)."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    async def advance(self, seconds: float) -> None:
        """Puts the clock forward; returns when what has become due has run. ValueError for less than nothing."""
        if not seconds >= 0 or math.isinf(seconds):
            raise ValueError(f"a clock cannot be put forward by {seconds} s")
        steps = min(max(1, math.ceil(seconds / _STEP_S)), _MOST_STEPS)
        for _ in range(steps):
            self.ahead_s += seconds / steps
            while (timer := self._next_due()) is not None:
                timer.run()
                await self._settle()
        for _, _, timer in self._timers:
            if timer.handle is not None:
                timer.handle.cancel()
                self._arm(timer)
        await self._settle()

    def _next_due(self) -> _Timer | None:
        now_s = self.monotonic()
        while self._timers:
            due_s, _, timer = self._timers[0]
            if timer.callback is not None and due_s > now_s:
                return None
            heapq.heappop(self._timers)
            if timer.callback is not None:
                return timer
            self._cancelled -= 1
        return None
