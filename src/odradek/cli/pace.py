"""How fast records are sent when a rate is asked for."""

from __future__ import annotations

from typing import Final

_LENIENCE_S: Final = 0.05
"""What a sleep may last too long is made up for; a longer stall is not, since what follows it would be a burst."""


class Pace:
    """So many records a second, evenly. It reads no clock: times are seconds of any clock that only goes forward."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next: float | None = None

    def wait(self, now: float) -> float:
        """How many seconds the next record has to wait from now on; it counts as sent then."""
        due = now if self._next is None else max(self._next, now - _LENIENCE_S)
        self._next = due + self._interval
        return max(due - now, 0.0)
