"""One turn of the loop for a chain of short steps.

A transaction's end is a chain: its decision is written at the end of the turn, then its markers go out, then it is written that it is
complete. With a turn of the loop for each step all the requests that have come in meanwhile would be served in between, and the producer's
next one would find the transaction unfinished and have to ask again. Here the steps come one after the other in the same turn, each still
for all that had gathered for it, none entered from within another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle

_STEPS = 8
"""In one turn; a chain is shorter. What is left then waits for the next turn, so that nothing that goes round in circles stops the loop."""


class _Step:
    """A `TimerHandle`."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None


class Turns:
    """A `base.clock.Clock` on another: what is to be called without delay is called on its next turn, with what follows from it."""

    def __init__(self, clock: Clock) -> None:
        self.time_ms = clock.time_ms
        self.monotonic = clock.monotonic
        self._clock = clock
        self._steps: deque[_Step] = deque()
        self._due = False

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """See `Clock`."""
        if delay_s > 0:
            return self._clock.call_later(delay_s, callback, *args)
        step = _Step(callback, args)
        self._steps.append(step)
        if not self._due:
            self._due = True
            self._clock.call_later(0, self._turn)
        return step

    def _turn(self) -> None:
        steps = self._steps
        try:
            for _ in range(_STEPS):
                for _ in range(len(steps)):
                    step = steps.popleft()
                    if step.callback is not None:
                        step.callback(*step.arguments)
                if not steps:
                    break
        finally:
            # Also after an error, which is the loop's to tell of.
            self._due = bool(steps)
            if steps:
                self._clock.call_later(0, self._turn)
