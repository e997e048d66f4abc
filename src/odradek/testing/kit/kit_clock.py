"""Clock of a broker on a real event loop, which a test can advance.

    clock = AdjustableClock(loop, settle)
    await clock.advance(3600)

Between advances the clock runs as the system's clocks do. An advance moves the clock in steps. In each step the due timers run one after
the other, in the order of their due times. Everything that a timer starts on this node ends before the next timer runs. Thus a broker keeps
its session with its own controller, however far the clock is advanced.
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
"""Number of cancelled timers that may stay in the heap."""


class _Timer:
    """Callback that is due at a time of the clock."""

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
        """Run the callback; do nothing for a cancelled timer."""
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
    """`base.clock.Clock` on an event loop, `ahead_s` seconds ahead of the system's clocks. Use the clock in the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settle: Callable[[], Awaitable[None]], ahead_s: float = 0.0) -> None:
        """Make a clock. `settle` is awaited after each timer of an advance; it returns when all that the timer started has ended."""
        self.ahead_s = ahead_s
        self._loop = loop
        self._settle = settle
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0

    def time_ms(self) -> int:
        """Return milliseconds since the Unix epoch, including advances."""
        return time.time_ns() // 1_000_000 + round(self.ahead_s * 1000)

    def monotonic(self) -> float:
        """Return monotonic seconds, including advances."""
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
        """Count a timer that has run or was cancelled, and remove such timers from the heap when they are many. Called by timers."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and wait until everything that has become due has run. Raises ValueError for a negative or infinite time."""
        if not seconds >= 0 or math.isinf(seconds):
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
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
