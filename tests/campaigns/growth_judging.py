"""Tells what grows from what only moves, in figures of processes that were taken again and again. Pure: no IO.

The first half of a series is the warm-up: caches fill, code is compiled, workers are made. A line through the second half (Theil-Sen: the
median of the slopes between all pairs of points, which single peaks do not bend) has to be flat. Sums over processes jump when Spark ends a
worker that it does not need and makes one later, so that a jump is no growth: the second half has to be higher than the first of it, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

_MOST_POINTS = 240
"""That pairs are made of."""


class Point(NamedTuple):
    """A figure at a time, both since the start."""

    at_s: float
    value: float


class Bound(NamedTuple):
    """What the second half of a series may grow by, at most: the larger one of a part of its level and of a number."""

    part: float
    number: float
    an_hour: float
    """The slope counts from here on, also where the part is not used up: per hour."""


MEMORY = Bound(part=0.05, number=3.0, an_hour=24.0)
"""Megabytes: less than 5 % (or 3 MB) over the second half, and less than 24 MB an hour."""
COUNTS = Bound(part=0.05, number=3.0, an_hour=60.0)
"""Descriptors, sockets, threads, processes: less than 5 % (or 3) over the second half, and less than one a minute."""


class Verdict(NamedTuple):
    """How a series went in its second half."""

    level: float
    """Its median."""
    growth: float
    """What the line rises by from its begin to its end."""
    an_hour: float
    grows: bool


def judge(series: Sequence[Point], bound: Bound) -> Verdict:
    """Of the second half in time. ValueError with fewer than eight points there."""
    middle = (series[0].at_s + series[-1].at_s) / 2 if series else 0.0
    half = [each for each in series if each.at_s >= middle]
    if len(half) < 8:
        raise ValueError(f"{len(half)} points are too few")
    slope = _slope(half[:: -(-len(half) // _MOST_POINTS)])
    growth = slope * (half[-1].at_s - half[0].at_s)
    third = len(half) // 3
    risen = _median(half[-third:]) - _median(half[:third])
    level = _median(half)
    # The line and the levels have to agree; over a third less of the time, the levels rise by less.
    grows = min(growth, risen * 1.5) > max(bound.part * level, bound.number) or (
        slope * 3600 > bound.an_hour and min(growth, risen * 1.5) > bound.number
    )
    return Verdict(level, growth, slope * 3600, grows)


def _median(points: Sequence[Point]) -> float:
    return statistics.median(each.value for each in points)


def _slope(points: Sequence[Point]) -> float:
    """A second."""
    return statistics.median(
        (later.value - earlier.value) / (later.at_s - earlier.at_s) for index, earlier in enumerate(points) for later in points[index + 1 :]
    )
