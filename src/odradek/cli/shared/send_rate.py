"""Pace of sending at a given rate."""

from __future__ import annotations

import sys
from math import inf


class Pace:
    """Even pace of `rate` records per second, None for no limit. Times are seconds of any monotonic clock.

    Late records are due at once, so the average rate is kept. At most `catch_up_s` seconds are caught up, because a longer stall would end
    in a burst.
    """

    def __init__(self, rate: float | None, start_s: float | None = None, *, catch_up_s: float = inf) -> None:
        """Start the pace at `start_s`, by default at the first call."""
        self._rate = rate
        self._start_s = start_s
        self._catch_up_s = catch_up_s

    def due(self, sent: int, now_s: float) -> int:
        """Return how many records may be sent at `now_s`, after `sent` records. The first record is due at the start."""
        if self._rate is None:
            return sys.maxsize
        return max(int((now_s - self._start(sent / self._rate, now_s)) * self._rate) + 1 - sent, 0)

    def wait_s(self, sent: int, now_s: float) -> float:
        """Return the seconds from `now_s` until the next record is due, after `sent` records."""
        if self._rate is None:
            return 0.0
        return max(self._start(sent / self._rate, now_s) + sent / self._rate - now_s, 0.0)

    def _start(self, passed_s: float, now_s: float) -> float:
        """Return the start, moved so far that the record due `passed_s` after it is at most `catch_up_s` late."""
        start_s = now_s if self._start_s is None else self._start_s
        self._start_s = max(start_s, now_s - self._catch_up_s - passed_s)
        return self._start_s
