"""Timers of a shard: by name, cancelled with the shard, fired as write operations (CoordinatorTimer).

A timer that fires late tells that the loop stood still: the process was stopped, or something took long. What clients sent in time then
still waits unread in the sockets, and a loop runs its timers before it reads them. Such a timer lets the loop read and serve what is
there before it expires, once, for some turns; a heartbeat among it replaces or cancels the timer as it would have done in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.base.clock import Clock, TimerHandle

if TYPE_CHECKING:
    from odradek.coordinator.shard import CoordinatorResult

Expire = Callable[[], "CoordinatorResult[None]"]
_RETRY_S = 0.5

_LATE_S = 0.05
"""So late is no timer of a loop that runs."""
_GRACE_TURNS = 4
"""Two bring at least one whole turn of reading, whichever part of a turn runs timers; two more serve what connections put by."""


class _Timer:
    """What is scheduled under a key. `grace` is how many turns it has still to let pass, None before it was due."""

    __slots__ = ("due", "expire", "grace", "handle", "key", "retry")

    handle: TimerHandle

    def __init__(self, key: str, expire: Expire, retry: bool, due: float) -> None:
        self.key = key
        self.expire = expire
        self.retry = retry
        self.due = due
        self.grace: int | None = None


class Timers:
    """`schedule` under a key replaces what was scheduled under it. Time is in milliseconds."""

    __slots__ = ("_clock", "_closed", "_pending", "_write")

    def __init__(self, clock: Clock, write: Callable[[Expire, Callable[[bool], object]], object]) -> None:
        """`write(operation, done)` runs the operation on the shard and tells whether its records were committed."""
        self._clock = clock
        self._write = write
        self._pending: dict[str, _Timer] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._pending))

    def __contains__(self, key: str) -> bool:
        return key in self._pending

    def schedule(self, key: str, delay_ms: float, expire: Expire, *, retry: bool = True) -> None:
        """Runs `expire` in `delay_ms`; with `retry` again half a second after an append that failed, until it succeeds."""
        if self._closed:
            return
        self.cancel(key)
        self._await(_Timer(key, expire, retry, self._clock.monotonic() + delay_ms / 1000), delay_ms / 1000)

    def cancel(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.handle.cancel()

    def close(self) -> None:
        """Cancels everything; nothing can be scheduled any more."""
        self._closed = True
        for timer in self._pending.values():
            timer.handle.cancel()
        self._pending.clear()

    def _await(self, timer: _Timer, delay_s: float) -> None:
        timer.handle = self._clock.call_later(delay_s, self._fire, timer)
        self._pending[timer.key] = timer

    def _fire(self, timer: _Timer) -> None:
        key = timer.key
        if self._pending.get(key) is not timer:
            return
        if timer.grace is None:
            timer.grace = _GRACE_TURNS if self._clock.monotonic() - timer.due > _LATE_S else 0
        if timer.grace:
            timer.grace -= 1
            self._await(timer, 0)
            return
        del self._pending[key]

        def done(succeeded: bool) -> None:
            if not succeeded and timer.retry and key not in self._pending:
                self.schedule(key, _RETRY_S * 1000, timer.expire, retry=True)

        self._write(timer.expire, done)
