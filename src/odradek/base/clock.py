"""Time as an argument.

Every component that needs the time or a timer receives a `Clock`. The broker's clock wraps its event loop (`server.clock.LoopClock`); the
simulator's clock runs on virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

READING_TURNS: Final = 4
"""Loop iterations after which the data that was in the sockets has been served.

Two iterations contain at least one whole phase of reading, whichever phase of an iteration runs timers. Two more serve the data that
connections have postponed.
"""


class TimerHandle(Protocol):
    """Scheduled callback. Cancelling twice, or after it ran, is harmless."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Clock: wall time for stored timestamps, monotonic time for measurements, and timers."""

    def time_ms(self) -> int:
        """Return wall-clock milliseconds since the Unix epoch; they may jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; only differences are meaningful."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Run `callback(*args)` once, after `delay_s` seconds (in the next loop iteration when <= 0)."""
        ...
