"""Rates of a count over 1, 5 and 15 minutes: exponentially weighted averages, like Unix load averages.

The count is read from time to time, and its growth since the last update is taken as even. With an update every `TICK_S` the rates equal
those of Yammer's meters. Rarer updates make the rates less exact. Code that counts does no work for rates.
"""

from __future__ import annotations

from math import exp
from typing import Final

TICK_S: Final = 5.0
"""Seconds between two looks at a count."""
_WINDOWS_S: Final = (60.0, 300.0, 900.0)


class Rates:
    """Rates of one count per second. Times are in seconds of a monotonic clock."""

    __slots__ = ("_averages", "_begun", "_count", "_first", "_updated")

    def __init__(self, now: float, count: int = 0) -> None:
        self._begun = self._updated = now
        self._first = self._count = count
        self._averages: tuple[float, float, float] | None = None

    def update(self, count: int, now: float) -> None:
        """Update the rates with the current count. Calls less than `TICK_S` after the last update have no effect."""
        passed = now - self._updated
        if passed < TICK_S:
            return
        rate = (count - self._count) / passed
        self._updated, self._count = now, count
        before = self._averages
        if before is None:
            # All three averages start with the rate of the first tick.
            self._averages = (rate, rate, rate)
            return
        one, five, fifteen = [was + (rate - was) * (1.0 - exp(-passed / window)) for was, window in zip(before, _WINDOWS_S, strict=True)]
        self._averages = (one, five, fifteen)

    def mean(self, count: int, now: float) -> float:
        """Return the rate per second since the first update."""
        passed = now - self._begun
        return (count - self._first) / passed if passed > 0 else 0.0

    @property
    def averages(self) -> tuple[float, float, float]:
        """Rates over 1, 5 and 15 minutes; zeros before the first tick has passed."""
        return self._averages or (0.0, 0.0, 0.0)
