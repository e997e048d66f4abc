"""Chains of short steps in one loop iteration.

The end of a transaction is a chain: its decision is written at the end of the loop iteration, then its markers are sent, then its
completion is written. With one loop iteration per step, other requests would be served in between. The producer's next request would then
find the transaction unfinished, and have to be repeated. Here the steps follow each other in the same iteration. Each step still handles
all gathered work, and no step is re-entered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle

_STEPS = 8
"""Steps in one loop iteration; chains are shorter. Further steps wait for the next iteration, so that an endless chain cannot block the
loop.
"""


class _Step:
    """Step of a chain; a `TimerHandle`."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None


class IterationClock:
    """A `base.clock.Clock` that runs calls without delay in the next loop iteration, together with the calls without delay that they
    make.
    """

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
            self._clock.call_later(0, self._run_calls)
        return step

    def _run_calls(self) -> None:
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
            # Also after an error, which the loop reports.
            self._due = bool(steps)
            if steps:
                self._clock.call_later(0, self._run_calls)
