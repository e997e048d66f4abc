"""A clock that tests turn by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Timer:
    """`base.clock.TimerHandle`."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """`base.clock.Clock`; `now` (monotonic seconds) stands still until `advance`."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Timer, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def time_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer()
        heapq.heappush(self._timers, (self.now + max(delay_s, 0), next(self._numbers), timer, callback, args))
        return timer

    def advance(self, seconds: float = 0.0) -> None:
        """Runs what falls due within `seconds`, in order, each at its time."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            at, _, timer, callback, args = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if not timer.cancelled:
                callback(*args)
        self.now = end

    def turn(self) -> None:
        """Runs what is due by now, and leaves what that schedules to the next turn, as a loop does."""
        due = [entry for entry in sorted(self._timers) if entry[0] <= self.now]
        for entry in due:
            self._timers.remove(entry)
        heapq.heapify(self._timers)
        for _, _, timer, callback, args in due:
            if not timer.cancelled:
                callback(*args)

    @property
    def pending(self) -> list[str]:
        """What is still to be called."""
        return [repr(callback) for _, _, timer, callback, _ in self._timers if not timer.cancelled]

    def advance_to_next(self) -> None:
        """To the timer that is due first."""
        self.advance(self._timers[0][0] - self.now)
