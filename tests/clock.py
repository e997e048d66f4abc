"""Clock that tests advance by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Final

START_MS: Final = 1_700_000_000_000
# Rounding error of sums of floats, which is smaller than this.
_ROUNDING_S: Final = 1e-9


class Timer:
    """`base.clock.TimerHandle`."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """`base.clock.Clock` for tests. Its monotonic seconds `now_s` change only when a test advances the clock."""

    def __init__(self, *, now_s: float = 0.0, wall_start_ms: int = START_MS) -> None:
        self.now_s = now_s
        self._wall_start_ms = wall_start_ms
        self._timers: list[tuple[float, int, Timer, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def time_ms(self) -> int:
        return self._wall_start_ms + round(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer()
        heapq.heappush(self._timers, (self.now_s + max(delay_s, 0), next(self._numbers), timer, callback, args))
        return timer

    def advance_s(self, seconds: float) -> None:
        """Advance by `seconds`, and run the timers that become due, in order, each at its own time."""
        end = self.now_s + seconds
        while self._timers and self._timers[0][0] <= end + _ROUNDING_S:
            at, _, timer, callback, args = heapq.heappop(self._timers)
            self.now_s = max(self.now_s, at)
            if not timer.cancelled:
                callback(*args)
        self.now_s = max(self.now_s, end)

    def advance_ms(self, milliseconds: float) -> None:
        self.advance_s(milliseconds / 1000)

    def advance_to_next(self) -> None:
        """Advance to the first due time of a timer. Raises IndexError without timers."""
        self.advance_s(self._timers[0][0] - self.now_s)

    def run_due(self) -> None:
        """Run the timers that are due now, and those that they schedule without delay. Time does not change."""
        self.advance_s(0)

    def turn(self) -> None:
        """Run the timers that are due now, as one iteration of an event loop does. Timers that they schedule wait for the next call."""
        due = [entry for entry in sorted(self._timers) if entry[0] <= self.now_s]
        for entry in due:
            self._timers.remove(entry)
        heapq.heapify(self._timers)
        for _, _, timer, callback, args in due:
            if not timer.cancelled:
                callback(*args)

    def stall_s(self, seconds: float) -> None:
        """Advance without running timers, as when a loop is busy."""
        self.now_s += seconds

    def set_wall_ms(self, time_ms: int) -> None:
        """Set the wall clock. Monotonic time does not change."""
        self._wall_start_ms += time_ms - self.time_ms()

    @property
    def pending(self) -> list[str]:
        """Texts of the callbacks that have not run."""
        return [repr(callback) for _, _, timer, callback, _ in self._timers if not timer.cancelled]
