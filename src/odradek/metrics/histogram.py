"""Distributions of values: counts in buckets that grow with the value, so that memory is bounded and distributions can be merged.

Each power of two has 16 buckets, so a percentile differs by at most 2.2 % from its value. Percentiles cover the last WINDOW_S to 2 *
WINDOW_S seconds. (Yammer's samples weigh the last five minutes most.)

Values that come in large numbers are sorted. Groups of 16 are then put into the bucket of their middle value, except for the largest
values. Sorting is cheaper than logarithms, and the tail stays as exact as with few values. Count, sum, smallest and largest value are
exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import ceil, floor, log2
from operator import mul
from typing import Final

WINDOW_S: Final = 300.0
FOLD_AT: Final = 512
"""Number of pending values that are put into buckets together."""

_STEP: Final = 16
_TAIL: Final = 32
"""Number of largest values (6 % of `FOLD_AT`) that are put into buckets one by one."""
_PARTS: Final = 16.0
"""Buckets of each power of two."""
_ZERO: Final = -(1 << 20)
"""Bucket of zero and of negative values."""


def bucket_of(value: float) -> int:
    """Return the bucket of a value."""
    return floor(log2(value) * _PARTS) if value > 0.0 else _ZERO


def value_of(bucket: int) -> float:
    """Return the middle of a bucket."""
    return 0.0 if bucket == _ZERO else 2.0 ** ((bucket + 0.5) / _PARTS)


class Distribution:
    """State of a histogram: of bounded size, and mergeable."""

    __slots__ = ("buckets", "count", "largest", "recent", "smallest", "total")

    def __init__(self) -> None:
        self.count = 0
        """Number of all values since the start."""
        self.buckets: Counter[int] = Counter()
        """Bucket -> number of values in the window."""
        self.recent = 0
        self.total = 0.0
        self.smallest = 0.0
        self.largest = 0.0

    def add(self, values: Sequence[float]) -> None:
        if values:
            smallest = min(values)
            # The usual case, which runs no Python code for each value.
            buckets = map(floor, map(mul, map(log2, values), repeat(_PARTS))) if smallest > 0.0 else map(bucket_of, values)
            self.put(buckets, len(values), sum(values), smallest, max(values))

    def add_many(self, values: Sequence[float]) -> None:
        """Add at least `FOLD_AT` values; the buckets of all but the largest values are approximate."""
        values = sorted(values)
        body = len(values) - _TAIL
        self.put(map(bucket_of, values[body:]), len(values), sum(values), values[0], values[-1])
        middles = [bucket_of(value) for value in values[_STEP // 2 : body : _STEP]]
        for bucket in middles:
            self.buckets[bucket] += _STEP
        # The last group of 16 may be incomplete, or be followed by a few values.
        self.buckets[middles[-1]] += body - _STEP * len(middles)

    def put(self, buckets: Iterable[int] | Counter[int], count: int, total: float, smallest: float, largest: float) -> None:
        self.buckets.update(buckets)
        self.smallest = smallest if not self.recent else min(self.smallest, smallest)
        self.largest = largest if not self.recent else max(self.largest, largest)
        self.count += count
        self.recent += count
        self.total += total

    def add_zeros(self, count: int) -> None:
        """Add `count` zeros."""
        if count > 0:
            self.put((), count, 0.0, 0.0, self.largest if self.recent else 0.0)
            self.buckets[_ZERO] += count

    def merge(self, other: Distribution) -> None:
        """Add the values of another distribution."""
        if other.recent:
            self.smallest = min(self.smallest, other.smallest) if self.recent else other.smallest
            self.largest = max(self.largest, other.largest) if self.recent else other.largest
            self.buckets.update(other.buckets)
        self.count += other.count
        self.recent += other.recent
        self.total += other.total

    @property
    def mean(self) -> float:
        return self.total / self.recent if self.recent else 0.0

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Return the values that bound these shares of the window's values. The shares have to ascend; without values all are zero."""
        answers: list[float] = []
        seen = 0
        buckets = iter(sorted(self.buckets.items()))
        bucket, count = next(buckets, (_ZERO, 0))
        for share in shares:
            rank = ceil(share * self.recent)
            while seen + count < rank:
                seen += count
                bucket, count = next(buckets)
            answers.append(min(max(value_of(bucket), self.smallest), self.largest))
        return answers


class Histogram:
    """Recorder of values. `record` is cheap. Hot code appends to `pending` instead, and reads the clock only to fold."""

    __slots__ = ("_before", "_begun", "_count", "_now", "pending")

    def __init__(self) -> None:
        self.pending: list[float] = []
        """Values that are not in a bucket yet. Hot code appends to this list directly, and folds at `FOLD_AT` values."""
        self._count = 0
        self._before = Distribution()
        self._now = Distribution()
        self._begun: float | None = None

    def record(self, value: float, now: float) -> None:
        self.pending.append(value)
        if len(self.pending) >= FOLD_AT:
            self.fold(now)

    def fold(self, now: float) -> None:
        """Put the pending values into buckets; `now` in seconds of a monotonic clock."""
        if self._begun is None:
            self._begun = now
        elif now - self._begun >= WINDOW_S:
            self._before = self._now if now - self._begun < 2 * WINDOW_S else Distribution()
            self._now = Distribution()
            self._begun = now
        pending, self.pending = self.pending, []
        if len(pending) < FOLD_AT:
            self._now.add(pending)
        else:
            self._now.add_many(pending)
        self._count += len(pending)

    def read(self, now: float) -> Distribution:
        """Return a copy of the current distribution."""
        self.fold(now)
        both = Distribution()
        both.merge(self._before)
        both.merge(self._now)
        both.count = self._count
        return both
