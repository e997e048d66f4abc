"""Pace of sending at a given rate."""

from __future__ import annotations

from typing import Final

_MAX_CATCH_UP_S: Final = 0.05
"""Seconds of delay that are caught up, because a sleep may last too long. After a longer stall catching up would be a burst."""


class Pace:
    """Even pace of `per_second` records. The caller passes the times, in seconds of any monotonic clock."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next: float | None = None

    def wait(self, now: float) -> float:
        """Return the seconds from `now` until the next record is due, and count that record as sent."""
        due = now if self._next is None else max(self._next, now - _MAX_CATCH_UP_S)
        self._next = due + self._interval
        return max(due - now, 0.0)
