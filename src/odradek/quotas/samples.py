"""Sampled rates and token buckets, which give the same numbers as Kafka's metrics.

A rate is the sum over samples of `size_ms` each, divided by a time. A sample is dropped when its last value is older than the whole window.
The time runs from the start of the oldest sample, and is at least the length of all samples but one. A new client may therefore send as
much as a window allows at once.

(org.apache.kafka.common.metrics.stats: Rate, SimpleRate, SampledStat, WindowedSum, TokenBucket)
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

UNLIMITED = float(2**63 - 1)
"""Limit of an owner without a quota (Long.MAX_VALUE)."""
LONGEST_MS = 2**31 - 1
"""Largest throttle_time_ms that a response can carry (int32)."""


class Window(NamedTuple):
    """Window of a rate: quota.window.num samples of quota.window.size.seconds each."""

    samples: int
    size_ms: int


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.value = 0.0
        self.start_ms = now_ms
        self.last_ms = now_ms

    def reset(self, now_ms: int) -> None:
        self.value = 0.0
        self.start_ms = now_ms
        self.last_ms = now_ms


class SampledRate:
    """Rate per second over a window. A negative value takes back an earlier one."""

    __slots__ = ("_current", "_samples", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self.window.size_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate per second."""
        self._purge(now_ms)
        total = 0.0
        for sample in self._samples:
            total += sample.value
        return total / (self.span_ms(now_ms) / 1000.0)

    def span_ms(self, now_ms: int) -> int:
        """Return the milliseconds that the sum is divided by."""
        elapsed = now_ms - self._oldest_ms(now_ms)
        size_ms = self.window.size_ms
        missing = self.window.samples - 1 - int(elapsed / size_ms)
        if missing > 0:
            elapsed += missing * size_ms
        return max(elapsed, 1)

    def _advance(self, now_ms: int) -> _Sample:
        samples = self._samples
        # There is one sample more than the window has, because the oldest sample may still overlap the window.
        self._current = (self._current + 1) % (self.window.samples + 1)
        if self._current >= len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        return samples[self._current]

    def _purge(self, now_ms: int) -> None:
        age_ms = self.window.samples * self.window.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= age_ms:
                sample.reset(now_ms)

    def _oldest_ms(self, now_ms: int) -> int:
        self._purge(now_ms)
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        return min([sample.start_ms for sample in self._samples])


class SimpleRate(SampledRate):
    """Rate over the time since the oldest sample began, at least one sample long."""

    __slots__ = ()

    def span_ms(self, now_ms: int) -> int:
        return max(now_ms - self._oldest_ms(now_ms), self.window.size_ms)


class TokenBucket:
    """Bucket of tokens, refilled with `rate` tokens per second up to a window's worth. The number of tokens may be negative (a debt)."""

    __slots__ = ("_tokens", "_updated_ms", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def record(self, value: float, rate: float, now_ms: int) -> None:
        """Take `value` tokens; a negative value returns tokens."""
        self._refill(rate, now_ms)
        self._tokens = min(self._burst(rate), self._tokens - value)

    def measure(self, rate: float, now_ms: int) -> float:
        """Return the number of tokens; negative for a debt."""
        self._refill(rate, now_ms)
        return self._tokens

    def _burst(self, rate: float) -> float:
        return self.window.samples * (self.window.size_ms / 1000.0) * rate

    def _refill(self, rate: float, now_ms: int) -> None:
        burst = self._burst(rate)
        if self._updated_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * ((now_ms - self._updated_ms) / 1000.0))
        self._updated_ms = now_ms


def throttle_ms(value: float, bound: float, span_ms: int) -> int:
    """Return the milliseconds without records after which a rate of `value` falls to `bound` (org.apache.kafka.server.quota.QuotaUtils)."""
    return rounded((value - bound) / bound * span_ms)


def rounded(milliseconds: float) -> int:
    """Round half up to whole milliseconds, at most LONGEST_MS; Kafka's int32 overflows there."""
    return min(floor(milliseconds + 0.5), LONGEST_MS)
