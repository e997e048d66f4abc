"""Timers of a shard: by name, cancelled with the shard, fired as write operations (CoordinatorTimer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock, TimerHandle

if TYPE_CHECKING:
    from odradek.coordinator.shard import CoordinatorResult

Expire = Callable[[], "CoordinatorResult[None]"]
_RETRY_S = 0.5


class Timers:
    """`schedule` under a key replaces what was scheduled under it. Time is in milliseconds."""

    __slots__ = ("_clock", "_closed", "_pending", "_write")

    def __init__(self, clock: Clock, write: Callable[[Expire, Callable[[bool], object]], object]) -> None:
        """`write(operation, done)` runs the operation on the shard and tells whether its records were committed."""
        self._clock = clock
        self._write = write
        self._pending: dict[str, tuple[object, TimerHandle]] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: str) -> bool:
        return key in self._pending

    def schedule(self, key: str, delay_ms: float, expire: Expire, *, retry: bool = True) -> None:
        """Runs `expire` in `delay_ms`; with `retry` again half a second after an append that failed, until it succeeds."""
        if self._closed:
            return
        self.cancel(key)
        token = object()
        self._pending[key] = (token, self._clock.call_later(delay_ms / 1000, self._fire, key, token, expire, retry))

    def schedule_if_absent(self, key: str, delay_ms: float, expire: Expire, *, retry: bool = True) -> None:
        if key not in self._pending:
            self.schedule(key, delay_ms, expire, retry=retry)

    def cancel(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending[1].cancel()

    def close(self) -> None:
        """Cancels everything; nothing can be scheduled any more."""
        self._closed = True
        for _, handle in self._pending.values():
            handle.cancel()
        self._pending.clear()

    def _fire(self, key: str, token: object, expire: Expire, retry: bool) -> None:
        pending = self._pending.get(key)
        if pending is None or pending[0] is not token:
            return
        del self._pending[key]

        def done(succeeded: bool) -> None:
            if not succeeded and retry and key not in self._pending:
                self.schedule(key, _RETRY_S * 1000, expire, retry=True)

        self._write(expire, done)
