"""How values are distributed: counts in buckets that grow with the value, so that memory is bounded and distributions can be added up.

There are sixteen buckets for each power of two: a percentile is at most 2.2 % away from the value it stands for. Percentiles are those of
the last `WINDOW_S` to twice as much (Yammer's samples weigh the last five minutes most).
Values that come by the hundred are sorted, and all but the largest are put into buckets by sixteens, in that of their middle one: a sort is
cheaper than logarithms, and the tail is as exact as of few values. Their number, sum, smallest and largest are exact.
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
"""Values that are kept as they come before they are put into buckets, together."""

_STEP: Final = 16
_TAIL: Final = 32
"""The largest of `FOLD_AT` values, 6 %, which are put into buckets one by one."""
_PARTS: Final = 16.0
"""Buckets for each power of two."""
_ZERO: Final = -(1 << 20)
"""The bucket of zero and of what is less."""


def bucket_of(value: float) -> int:
    """The bucket of a value."""
    return floor(log2(value) * _PARTS) if value > 0.0 else _ZERO


def value_of(bucket: int) -> float:
    """The middle of a bucket."""
    return 0.0 if bucket == _ZERO else 2.0 ** ((bucket + 0.5) / _PARTS)


class Distribution:
    """A state of a histogram: mergeable, of bounded size."""

    __slots__ = ("buckets", "count", "largest", "recent", "smallest", "total")

    def __init__(self) -> None:
        self.count = 0
        """Values ever seen."""
        self.buckets: Counter[int] = Counter()
        """Those of the window."""
        self.recent = 0
        self.total = 0.0
        self.smallest = 0.0
        self.largest = 0.0

    def add(self, values: Sequence[float]) -> None:
        if values:
            smallest = min(values)
            # Nearly always, and then no Python code is run for a value.
            buckets = map(floor, map(mul, map(log2, values), repeat(_PARTS))) if smallest > 0.0 else map(bucket_of, values)
            self.put(buckets, len(values), sum(values), smallest, max(values))

    def add_many(self, values: Sequence[float]) -> None:
        """As `add`, of at least `FOLD_AT` values."""
        values = sorted(values)
        body = len(values) - _TAIL
        self.put(map(bucket_of, values[body:]), len(values), sum(values), values[0], values[-1])
        middles = [bucket_of(value) for value in values[_STEP // 2 : body : _STEP]]
        for bucket in middles:
            self.buckets[bucket] += _STEP
        # The last sixteen may be cut short, or have a few values behind it.
        self.buckets[middles[-1]] += body - _STEP * len(middles)

    def put(self, buckets: Iterable[int] | Counter[int], count: int, total: float, smallest: float, largest: float) -> None:
        self.buckets.update(buckets)
        self.smallest = smallest if not self.recent else min(self.smallest, smallest)
        self.largest = largest if not self.recent else max(self.largest, largest)
        self.count += count
        self.recent += count
        self.total += total

    def add_zeros(self, count: int) -> None:
        """So many values are zero."""
        if count > 0:
            self.put((), count, 0.0, 0.0, self.largest if self.recent else 0.0)
            self.buckets[_ZERO] += count

    def merge(self, other: Distribution) -> None:
        """Adds the other's values."""
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
        """The values that bound these shares of all, in ascending order of the shares; zeros where there is none."""
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
    """Records values. `record` is cheap; the clock is read by whoever folds, now and then."""

    __slots__ = ("_before", "_begun", "_count", "_now", "pending")

    def __init__(self) -> None:
        self.pending: list[float] = []
        """Values that are in no bucket yet; hot code appends here itself and folds at `FOLD_AT`."""
        self._count = 0
        self._before = Distribution()
        self._now = Distribution()
        self._begun: float | None = None

    def record(self, value: float, now: float) -> None:
        self.pending.append(value)
        if len(self.pending) >= FOLD_AT:
            self.fold(now)

    def fold(self, now: float) -> None:
        """Puts what was recorded into its buckets; `now` in seconds of a clock that never goes back."""
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
        """What was recorded; a copy."""
        self.fold(now)
        both = Distribution()
        both.merge(self._before)
        both.merge(self._now)
        both.count = self._count
        return both
