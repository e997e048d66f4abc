"""Pause before the next attempt (KIP-580)."""

from __future__ import annotations

import random


class Backoff:
    """Exponential back-off with jitter: `base_ms` doubles with every failure up to `max_ms`; a spread of +-20 % keeps clients apart."""

    __slots__ = ("_rng", "base_ms", "max_ms")

    _JITTER = 0.2

    def __init__(self, base_ms: int, max_ms: int, rng: random.Random) -> None:
        self.base_ms = min(base_ms, max_ms)
        self.max_ms = max_ms
        self._rng = rng

    def delay_ms(self, failures: int) -> int:
        """Return the pause in milliseconds after `failures` failures in a row; 0 when nothing has failed."""
        if failures <= 0:
            return 0
        exponential = min(self.base_ms * 2 ** min(failures - 1, 30), self.max_ms)
        return int(min(exponential * self._rng.uniform(1 - self._JITTER, 1 + self._JITTER), self.max_ms))
