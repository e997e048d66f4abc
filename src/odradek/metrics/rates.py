"""Rates of a count over one, five and fifteen minutes: exponentially weighted averages, as Unix does for its load.

A count is looked at now and then, and what has come since the last look is taken to have come evenly. Looked at every `TICK_S`, that is
what Yammer's meters do; looked at more rarely, it still costs the counting code nothing.
"""

from __future__ import annotations

from math import exp
from typing import Final

TICK_S: Final = 5.0
"""How often a count is to be looked at."""
_WINDOWS_S: Final = (60.0, 300.0, 900.0)


class Rates:
    """The rates of one count, per second. Times are seconds of a clock that never goes back."""

    __slots__ = ("_averages", "_begun", "_count", "_first", "_looked")

    def __init__(self, now: float, count: int = 0) -> None:
        self._begun = self._looked = now
        self._first = self._count = count
        self._averages: tuple[float, float, float] | None = None

    def look(self, count: int, now: float) -> None:
        """The count is this now; nothing happens before a tick has passed."""
        passed = now - self._looked
        if passed < TICK_S:
            return
        rate = (count - self._count) / passed
        self._looked, self._count = now, count
        before = self._averages
        if before is None:
            # The first tick: all three begin with what was seen.
            self._averages = (rate, rate, rate)
            return
        one, five, fifteen = [was + (rate - was) * (1.0 - exp(-passed / window)) for was, window in zip(before, _WINDOWS_S, strict=True)]
        self._averages = (one, five, fifteen)

    def mean(self, count: int, now: float) -> float:
        """Per second, since the count was first looked at."""
        passed = now - self._begun
        return (count - self._first) / passed if passed > 0 else 0.0

    @property
    def averages(self) -> tuple[float, float, float]:
        """Over one, five and fifteen minutes; zero before the first tick has passed."""
        return self._averages or (0.0, 0.0, 0.0)
