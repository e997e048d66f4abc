"""Deadlines of waiting requests: many deadlines, one timer.

Most requests are answered within milliseconds and would wait for seconds, so a timer for each would mostly be set and cancelled in vain.
Here a new deadline is a push on a heap. The alarm stays where it is unless an earlier deadline comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from odradek.base.clock import Clock
from odradek.base.timing import Alarm

logger = logging.getLogger(__name__)

_EARLY_S = 0.001
"""Seconds by which a loop's timer may be early: loops count in milliseconds from their last look at the clock."""
_FEW = 64
"""Most cancelled deadlines that stay in the heap before a sweep is worth its cost."""

Expire = Callable[[], object]


class Deadline:
    """Deadline of one request; `expire` is None once it has been cancelled or has passed."""

    __slots__ = ("expire",)

    def __init__(self, expire: Expire) -> None:
        self.expire: Expire | None = expire


class Deadlines:
    """Deadlines of one purgatory. They are as exact as the loop's timers."""

    __slots__ = ("_alarm", "_cancelled", "_clock", "_heap", "_numbers")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Deadline]] = []
        """Entries of (monotonic seconds, sequence number, deadline)."""
        self._numbers = count()
        self._cancelled = 0
        self._alarm = Alarm(clock, self._fire)

    def __len__(self) -> int:
        """Return how many deadlines are in memory, including cancelled deadlines that no sweep has removed yet."""
        return len(self._heap)

    def add(self, timeout_s: float, expire: Expire) -> Deadline:
        """Call `expire` in `timeout_s` seconds, unless the deadline is cancelled before."""
        deadline = Deadline(expire)
        at_s = self._clock.monotonic() + timeout_s
        heappush(self._heap, (at_s, next(self._numbers), deadline))
        if at_s < self._alarm.due_s:
            self._alarm.set_at(at_s)
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Cancel the deadline; harmless when it has passed."""
        if deadline.expire is None:
            return
        deadline.expire = None
        self._cancelled += 1
        if self._cancelled > _FEW and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].expire is not None]
            heapify(self._heap)
            self._cancelled = 0

    def close(self) -> None:
        """Stop the alarm and forget the deadlines. All requests have been answered."""
        self._alarm.cancel()
        self._heap.clear()
        self._cancelled = 0

    def _fire(self) -> None:
        now = self._clock.monotonic()
        due: list[Expire] = []
        while self._heap:
            at_s, _, first = self._heap[0]
            if first.expire is None:
                self._cancelled -= 1
            elif at_s <= now + _EARLY_S:
                due.append(first.expire)
                first.expire = None
            else:
                # Answered requests do not move the alarm, so it mostly rings in vain: set it for the next deadline that is not cancelled.
                self._alarm.set_at(at_s)
                break
            heappop(self._heap)
        for expire in due:
            try:
                expire()
            except Exception:
                # A request that cannot be answered must not keep others waiting.
                logger.exception("no response could be sent to a request that timed out")
