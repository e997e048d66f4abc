"""A clock that tests turn by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Final

START_MS: Final = 1_700_000_000_000
# Sums of floats miss their mark by less than this.
_ROUNDING_S: Final = 1e-9


class Timer:
    """`base.clock.TimerHandle`."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """`base.clock.Clock`; `now_s`, its monotonic seconds, stands still until a test advances it."""

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
        """Runs what falls due within `seconds`, in order, each at its time."""
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
        """To the timer that is due first."""
        self.advance_s(self._timers[0][0] - self.now_s)

    def run_due(self) -> None:
        """Runs what is due now and what that wants called at once; no time passes."""
        self.advance_s(0)

    def turn(self) -> None:
        """One turn of a loop: runs what is due now, and leaves what that schedules to the next turn."""
        due = [entry for entry in sorted(self._timers) if entry[0] <= self.now_s]
        for entry in due:
            self._timers.remove(entry)
        heapq.heapify(self._timers)
        for _, _, timer, callback, args in due:
            if not timer.cancelled:
                callback(*args)

    def stall_s(self, seconds: float) -> None:
        """Time passes and no timer runs: the loop was busy."""
        self.now_s += seconds

    def set_wall_ms(self, time_ms: int) -> None:
        """The wall clock jumps; monotonic time does not."""
        self._wall_start_ms += time_ms - self.time_ms()

    @property
    def pending(self) -> list[str]:
        """What is still to be called."""
        return [repr(callback) for _, _, timer, callback, _ in self._timers if not timer.cancelled]
