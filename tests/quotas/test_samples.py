"""Sampled rates and token buckets, against models that keep everything. tests/interop/test_quotas.py compares with Kafka's own classes."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.quotas.samples import LONGEST_MS, SampledRate, SimpleRate, TokenBucket, Window, rounded, throttle_ms

WINDOW = Window(11, 1000)
T0 = 10**12


class Model:
    """The samples as (start, last, value), each change a new list."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.samples: list[tuple[int, int, float]] = []
        """Oldest first, the current one last."""

    def record(self, value: float, now: int) -> None:
        if not self.samples or now - self.samples[-1][0] >= self.window.size_ms:
            self.samples.append((now, now, 0.0))
        start, _, total = self.samples.pop()
        self.samples.append((start, now, total + value))
        self.samples = self.samples[-(self.window.samples + 1) :]

    def rate(self, now: int) -> float:
        age = self.window.samples * self.window.size_ms
        self.samples = [each if now - each[1] < age else (now, now, 0.0) for each in self.samples]
        start = min((each[0] for each in self.samples), default=now)
        elapsed = now - start
        while elapsed // self.window.size_ms < self.window.samples - 1:
            elapsed += self.window.size_ms
        return sum(each[2] for each in self.samples) / (max(elapsed, 1) / 1000)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5),
    st.sampled_from([1000, 2000]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(-5, 1000), st.booleans()), max_size=60),
)
def test_rates_are_those_of_the_model(samples: int, size_ms: int, steps: list[tuple[int, int, bool]]) -> None:
    window = Window(samples, size_ms)
    rate, model, now = SampledRate(window), Model(window), T0
    for later, value, measured in steps:
        now += later
        rate.record(value, now)
        model.record(value, now)
        if measured:
            assert rate.measure(now) == pytest.approx(model.rate(now))


def test_a_client_that_has_only_just_come_may_send_a_window_s_worth() -> None:
    rate = SampledRate(WINDOW)
    rate.record(10_000, T0)
    assert rate.measure(T0) == 1000
    assert rate.span_ms(T0) == 10_000


def test_what_is_as_old_as_all_samples_is_forgotten() -> None:
    rate = SampledRate(WINDOW)
    rate.record(10_000, T0)
    assert rate.measure(T0 + 10_999) > 0
    assert rate.measure(T0 + 11_000) == 0


def test_one_sample_of_no_time_is_a_millisecond() -> None:
    rate = SampledRate(Window(1, 1000))
    rate.record(5, T0)
    assert rate.measure(T0) == 5000


def test_a_simple_rate_counts_from_the_oldest_sample_and_at_least_one() -> None:
    rate = SimpleRate(WINDOW)
    rate.record(1000, T0)
    assert rate.measure(T0 + 500) == 1000
    assert rate.measure(T0 + 4000) == 250


def test_what_is_taken_back_was_never_there() -> None:
    rate = SampledRate(WINDOW)
    for step in range(20):
        rate.record(100, T0 + step * 700)
    before = rate.measure(T0 + 20 * 700)
    rate.record(5000, T0 + 20 * 700)
    rate.record(-5000, T0 + 20 * 700)
    assert rate.measure(T0 + 20 * 700) == pytest.approx(before)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.5, 50), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 40)), max_size=40))
def test_tokens_come_back_at_the_rate_and_never_beyond_the_burst(quota: float, steps: list[tuple[int, int]]) -> None:
    window = Window(3, 1000)
    bucket, now, tokens = TokenBucket(window), T0, 3 * quota
    for later, taken in steps:
        now += later
        tokens = min(3 * quota, tokens + quota * later / 1000) - taken
        bucket.record(taken, quota, now)
        assert bucket.measure(quota, now) == pytest.approx(tokens)


def test_waiting_the_throttle_time_brings_a_rate_down_to_its_bound() -> None:
    rate = SampledRate(WINDOW)
    rate.record(25_000, T0)
    wait = throttle_ms(rate.measure(T0), 1000, rate.span_ms(T0))
    assert wait == 15_000
    assert throttle_ms(1001, 1000, 500) == 1  # rounded to the nearest, halves up


def test_no_wait_is_longer_than_an_answer_can_say() -> None:
    assert throttle_ms(1e18, 1, 10_000) == LONGEST_MS
    assert rounded(0.49) == 0
    with pytest.raises(OverflowError):
        rounded(inf)
