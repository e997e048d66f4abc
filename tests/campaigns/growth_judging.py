"""Detection of growth in figures of processes that were sampled repeatedly. Pure: no IO.

The first half of a series is the warm-up: caches fill, code is compiled, workers are started. A line through the second half must be flat.
The line is by Theil-Sen: the median of the slopes between all pairs of points, which single peaks do not change. Sums over processes jump
when Spark ends an idle worker and starts one later. Such a jump is no growth: therefore the second half's end must also be higher than its
beginning.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

_MOST_POINTS = 240
"""Maximum number of points from which pairs are made."""


class Point(NamedTuple):
    """Value at a time in seconds since the start."""

    at_s: float
    value: float


class Bound(NamedTuple):
    """Maximum growth over the second half of a series: the larger of a share of its level and of a number."""

    part: float
    number: float
    an_hour: float
    """Growth per hour from which the slope counts even if the share is not used up."""


MEMORY = Bound(part=0.05, number=3.0, an_hour=24.0)
"""Megabytes: less than 5 % (or 3 MB) over the second half, and less than 24 MB an hour."""
COUNTS = Bound(part=0.05, number=3.0, an_hour=60.0)
"""Descriptors, sockets, threads, processes: less than 5 % (or 3) over the second half, and less than one a minute."""


class Verdict(NamedTuple):
    """Behaviour of a series in its second half."""

    level: float
    """Median of the values."""
    growth: float
    """Rise of the line from beginning to end of the second half."""
    an_hour: float
    grows: bool


def judge(series: Sequence[Point], bound: Bound) -> Verdict:
    """Judge the second half of the time. Raises ValueError when it has fewer than eight points."""
    middle = (series[0].at_s + series[-1].at_s) / 2 if series else 0.0
    half = [each for each in series if each.at_s >= middle]
    if len(half) < 8:
        raise ValueError(f"{len(half)} points are too few")
    slope = _slope(half[:: -(-len(half) // _MOST_POINTS)])
    growth = slope * (half[-1].at_s - half[0].at_s)
    third = len(half) // 3
    risen = _median(half[-third:]) - _median(half[:third])
    level = _median(half)
    # Line and levels have to agree. The levels span a third less time than the line, so they rise by less.
    grows = min(growth, risen * 1.5) > max(bound.part * level, bound.number) or (
        slope * 3600 > bound.an_hour and min(growth, risen * 1.5) > bound.number
    )
    return Verdict(level, growth, slope * 3600, grows)


def _median(points: Sequence[Point]) -> float:
    return statistics.median(each.value for each in points)


def _slope(points: Sequence[Point]) -> float:
    """Return the slope per second."""
    return statistics.median(
        (later.value - earlier.value) / (later.at_s - earlier.at_s) for index, earlier in enumerate(points) for later in points[index + 1 :]
    )
