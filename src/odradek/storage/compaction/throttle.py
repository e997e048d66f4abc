"""Limit of log.cleaner.io.max.bytes.per.second, shared by all cleanings of a broker (Kafka's Throttler)."""

from __future__ import annotations

from odradek.base.clock import Clock

CHECK_INTERVAL_S = 0.3


class Throttle:
    """Throttle of bytes read and written by cleanings. Used on the loop only."""

    __slots__ = ("_clock", "_observed", "_period_start", "rate")

    def __init__(self, clock: Clock, rate: float) -> None:
        """`rate` is in bytes per second and may be changed at any time."""
        self._clock = clock
        self.rate = rate
        self._period_start = clock.monotonic()
        self._observed = 0

    @property
    def slice_bytes(self) -> int:
        """Bytes that may be moved between two calls of `observe`: the rate's share of one interval."""
        return max(1, int(min(self.rate * CHECK_INTERVAL_S, 1 << 40)))

    def observe(self, size: int) -> float:
        """Count `size` more bytes and return the seconds to wait."""
        self._observed += size
        now = self._clock.monotonic()
        elapsed = now - self._period_start
        delay = self._observed / self.rate - elapsed if self.rate > 0 else 0.0
        if elapsed < CHECK_INTERVAL_S and delay < CHECK_INTERVAL_S:
            # The rate is checked once an interval, so that many small steps do not cause many small pauses.
            return 0.0
        delay = max(delay, 0.0)
        self._period_start = now + delay
        self._observed = 0
        return delay
