"""Timer that can be moved."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.clock import Clock, TimerHandle
from odradek.consensus.states import NEVER


class Alarm:
    """Timer that calls `ring` at the deadline set last. Deadlines are milliseconds of the monotonic clock, or NEVER."""

    __slots__ = ("_clock", "_deadline_ms", "_ring", "_timer")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: TimerHandle | None = None
        self._deadline_ms = NEVER

    def set(self, deadline_ms: int) -> None:
        """Replace the deadline. One in the past rings in the next loop iteration."""
        if deadline_ms == self._deadline_ms:
            return
        self.cancel()
        self._deadline_ms = deadline_ms
        if deadline_ms != NEVER:
            delay_ms = deadline_ms - int(self._clock.monotonic() * 1000)
            self._timer = self._clock.call_later(max(delay_ms, 0) / 1000, self._rung)

    def cancel(self) -> None:
        """Do not ring until another deadline is set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = NEVER

    def _rung(self) -> None:
        self._timer = None
        self._deadline_ms = NEVER
        self._ring()
