"""What the commands that measure have in common: latencies, throughput in windows, and a pace. Pure: times are arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

_EXACT: Final = 100_000
MEGABYTE: Final = 1024 * 1024


class Latencies:
    """How often each latency (microseconds) came. Those of 0.1 s and more are kept to five digits: memory does not grow with the number."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.highest = 0
        self._numbers: dict[int, int] = {}

    def record(self, latency: int, count: int = 1) -> None:
        """Takes a latency that `count` records had."""
        self.count += count
        self.total += latency * count
        if latency > self.highest:
            self.highest = latency
        step = 1
        while latency >= _EXACT * step:
            step *= 10
        kept = latency - latency % step
        self._numbers[kept] = self._numbers.get(kept, 0) + count

    @property
    def average(self) -> float:
        """The mean; 0 without any."""
        return self.total / self.count if self.count else 0.0

    def percentiles(self, fractions: Sequence[float]) -> list[int]:
        """The latency at each fraction (rising) of all in their order, as Kafka's tools count: the one at the index fraction * count."""
        found: list[int] = []
        rest = sorted(self._numbers.items())
        position = below = 0
        for fraction in fractions:
            index = int(fraction * self.count)
            while position < len(rest) and below + rest[position][1] <= index:
                below += rest[position][1]
                position += 1
            found.append(rest[position][0] if position < len(rest) else self.highest)
        return found


class Window(NamedTuple):
    """A part of a test. `latency_total` and `latency_highest` are microseconds."""

    number: int
    seconds: float
    records: int
    size: int
    latency_total: int
    latency_highest: int


class Throughput:
    """Records and bytes since a moment, in all and in windows of `interval_s`."""

    def __init__(self, start_s: float, interval_s: float) -> None:
        self.start_s = start_s
        self.size = 0
        self.latencies = Latencies()
        self._interval_s = interval_s
        self._number = 0
        self._open(start_s)

    def _open(self, now_s: float) -> None:
        self._begin_s = now_s
        self._count = self._size = self._total = self._highest = 0

    def record(self, latency: int, count: int, size: int, now_s: float) -> Window | None:
        """Takes `count` records of `size` bytes together; the window that ends with them."""
        self.latencies.record(latency, count)
        self.size += size
        self._count += count
        self._size += size
        self._total += latency * count
        self._highest = max(self._highest, latency)
        if now_s - self._begin_s < self._interval_s:
            return None
        ended = Window(self._number, now_s - self._begin_s, self._count, self._size, self._total, self._highest)
        self._number += 1
        self._open(now_s)
        return ended


class Pacer:
    """How many records are due, and how long until the next. What could not be sent in time is due at once, so that the rate is kept."""

    def __init__(self, rate: float | None, start_s: float) -> None:
        """`rate` is records a second, None for as fast as it goes."""
        self._rate = rate
        self._start_s = start_s

    def due(self, sent: int, now_s: float) -> int:
        """How many may be sent now, when so many have been sent: the first at once."""
        if self._rate is None:
            return sys.maxsize
        return max(int((now_s - self._start_s) * self._rate) + 1 - sent, 0)

    def wait_s(self, sent: int, now_s: float) -> float:
        """Seconds until one is due."""
        return 0.0 if self._rate is None else max(self._start_s + sent / self._rate - now_s, 0.0)
