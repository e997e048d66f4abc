"""Measurements of the `perf` commands: latencies, and throughput in windows. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_EXACT: Final = 100_000
MEGABYTE: Final = 1024 * 1024


class Latencies:
    """Counts of latencies (microseconds). Latencies of 0.1 s and more are rounded down to five digits, to bound the memory."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.highest = 0
        self._numbers: dict[int, int] = {}

    def record(self, latency: int, count: int = 1) -> None:
        """Count a latency (microseconds) of `count` records."""
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
        """Mean in microseconds; 0 without latencies."""
        return self.total / self.count if self.count else 0.0

    def percentiles(self, fractions: Sequence[float]) -> list[int]:
        """Return for each fraction the sorted latency at the index fraction * count, as Kafka's tools do. The fractions must ascend."""
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
    """Interval of a test. `size` is bytes; `latency_total` and `latency_highest` are microseconds."""

    number: int
    seconds: float
    records: int
    size: int
    latency_total: int
    latency_highest: int


class Throughput:
    """Records and bytes since `start_s`, in total and in windows of `interval_s` seconds."""

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
        """Count `count` records of `size` bytes in total; return the window that ends with these records, None while it is open."""
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
