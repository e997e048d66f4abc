"""The clock of what benchmarks run without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn


class WallClock:
    """The part of a `base.clock.Clock` that a log asks for: it sets no timers."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> NoReturn:
        raise NotImplementedError("logs set no timers")
