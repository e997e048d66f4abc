"""Time as an argument.

Every component that needs the time or a timer receives a `Clock`. The broker hands out one that wraps its event loop
(`server.clock.LoopClock`); the simulator hands out one on virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

READING_TURNS: Final = 4
"""Turns of a loop after which what lay in its sockets has been served: two bring at least one whole turn of reading, whichever part of a
turn runs timers; two more serve what connections put by.
"""


class TimerHandle(Protocol):
    """A scheduled callback. Cancelling twice, or after it ran, is harmless."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured, timers for what is awaited."""

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the Unix epoch; may jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Runs `callback(*args)` once, after `delay_s` seconds (at once on the next turn when <= 0)."""
        ...
