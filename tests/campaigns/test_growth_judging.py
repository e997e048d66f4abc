"""Tests that the check of growth reports growth that is planted in series, and nothing more."""

from __future__ import annotations

import random

import pytest

from tests.campaigns.growth_judging import COUNTS, MEMORY, Point, judge

HOUR = range(0, 3600, 5)


def noisy(value: float, spread: float, seed: int = 1) -> list[float]:
    generator = random.Random(seed)
    return [value + generator.uniform(-spread, spread) for _ in HOUR]


def points(values: list[float]) -> list[Point]:
    return [Point(float(at), value) for at, value in zip(HOUR, values, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_what_only_moves_does_not_grow(seed: int) -> None:
    verdict = judge(points(noisy(200, 30, seed)), MEMORY)
    assert not verdict.grows
    assert abs(verdict.level - 200) < 5


def test_a_warm_up_is_no_growth() -> None:
    values = [value + min(at, 1200) / 10 for at, value in zip(HOUR, noisy(100, 3), strict=True)]
    assert not judge(points(values), MEMORY).grows


@pytest.mark.parametrize(("level", "an_hour"), [(60, 12), (60, 30), (500, 60), (900, 100), (1500, 40)])
def test_a_leak_of_memory_is_growth(level: float, an_hour: float) -> None:
    values = [value + an_hour * at / 3600 for at, value in zip(HOUR, noisy(level, 3), strict=True)]
    verdict = judge(points(values), MEMORY)
    assert verdict.grows
    assert abs(verdict.an_hour - an_hour) < an_hour / 5


def test_a_leak_among_large_noise_is_growth() -> None:
    values = [value + 200 * at / 3600 for at, value in zip(HOUR, noisy(400, 60), strict=True)]
    assert judge(points(values), MEMORY).grows


def test_a_leak_in_steps_is_growth() -> None:
    values = [100.0 + 8 * (at // 400) for at in HOUR]
    assert judge(points(values), MEMORY).grows


def test_a_worker_that_comes_and_goes_is_no_growth() -> None:
    values = [180.0 if at % 600 < 120 else 120.0 for at in HOUR]
    assert not judge(points(values), MEMORY).grows


def test_a_last_peak_is_no_growth() -> None:
    values = noisy(100, 1)
    values[-20:] = [400.0] * 20
    assert not judge(points(values), MEMORY).grows


def test_one_descriptor_a_minute_is_growth_and_three_in_an_hour_are_not() -> None:
    assert judge(points([30.0 + at // 60 for at in HOUR]), COUNTS).grows
    assert not judge(points([30.0 + at // 1200 for at in HOUR]), COUNTS).grows


def test_one_descriptor_for_each_micro_batch_is_growth_where_there_are_many() -> None:
    assert judge(points([5000.0 + at / 5 for at in HOUR]), COUNTS).grows


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        judge([Point(float(at), 1.0) for at in range(10)], MEMORY)
