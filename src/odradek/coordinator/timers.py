"""Timers of a shard: addressed by key, cancelled with the shard, run as write operations (CoordinatorTimer).

A timer that fires late shows that the event loop was blocked or the process stopped. Requests that clients sent in time are then still in
the sockets, and the loop runs timers before it reads them. Therefore a late timer first lets the loop read and serve requests for some
iterations, once. A heartbeat among these requests replaces or cancels the timer, as it would have done in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.base.timing import Alarm, Grace

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.coordinator.shard import CoordinatorResult

Expire = Callable[[], "CoordinatorResult[None]"]
_RETRY_S = 0.5

_LATE_S = 0.05
"""Lateness in seconds that a timer reaches only when the loop was blocked."""


class _Timer:
    """Timer of a key, due at `due_s`. `grace` is set once the timer has fired late."""

    __slots__ = ("alarm", "due_s", "expire", "grace", "retry")

    def __init__(self, clock: Clock, fire: Callable[[], object], expire: Expire) -> None:
        self.alarm = Alarm(clock, fire)
        self.expire = expire
        self.retry = False
        self.due_s = 0.0
        self.grace: Grace | None = None


class Timers:
    """Timers of one shard. `schedule` replaces an earlier timer of the same key. Delays are in milliseconds."""

    __slots__ = ("_clock", "_closed", "_pending", "_write")

    def __init__(self, clock: Clock, write: Callable[[Expire, Callable[[bool], object]], object]) -> None:
        """`write(operation, done)` runs the operation on the shard, and calls `done` with whether its records were committed."""
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
        """Run `expire` in `delay_ms`. With `retry` it runs again 0.5 s after each failed append, until an append succeeds."""
        if self._closed:
            return
        timer = self._pending.get(key)
        if timer is None:
            timer = self._pending[key] = _Timer(self._clock, lambda: self._fire(key), expire)
        timer.expire, timer.retry, timer.grace = expire, retry, None
        timer.alarm.set(delay_ms / 1000)
        timer.due_s = timer.alarm.due_s

    def cancel(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.alarm.cancel()

    def close(self) -> None:
        """Cancel all timers. Later calls of `schedule` have no effect."""
        self._closed = True
        for timer in self._pending.values():
            timer.alarm.cancel()
        self._pending.clear()

    def _fire(self, key: str) -> None:
        timer = self._pending[key]
        if timer.grace is None and self._clock.monotonic() - timer.due_s > _LATE_S:
            timer.grace = Grace(timer.alarm)
        if timer.grace is not None and timer.grace.waits():
            return
        del self._pending[key]

        def done(succeeded: bool) -> None:
            if not succeeded and timer.retry and key not in self._pending:
                self.schedule(key, _RETRY_S * 1000, timer.expire, retry=True)

        self._write(timer.expire, done)
