"""What the commands that measure count with: latencies, windows, a pace; and times in Java's formats."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records.java_dates import java_date_format
from odradek.cli.shared.measuring import Latencies, Throughput, Window
from odradek.cli.shared.send_rate import Pace

FRACTIONS = (0.0, 0.5, 0.95, 0.99, 0.999)


def of(numbers: dict[int, int]) -> Latencies:
    latencies = Latencies()
    for latency, count in numbers.items():
        latencies.record(latency, count)
    return latencies


@given(st.lists(st.tuples(st.integers(0, 99_999), st.integers(1, 5)), min_size=1))
def test_percentiles_are_those_of_all_in_order(given_: list[tuple[int, int]]) -> None:
    latencies = Latencies()
    for latency, count in given_:
        latencies.record(latency, count)
    every = sorted(latency for latency, count in given_ for _ in range(count))
    assert latencies.percentiles(FRACTIONS) == [every[int(fraction * len(every))] for fraction in FRACTIONS]
    assert latencies.average == pytest.approx(sum(every) / len(every))
    assert (latencies.count, latencies.highest) == (len(every), every[-1])


@given(st.integers(100_000, 10**14))
def test_large_latencies_keep_five_digits(latency: int) -> None:
    (kept,) = of({latency: 1}).percentiles([0.5])
    assert str(kept)[:5] == str(latency)[:5]
    assert len(str(kept)) == len(str(latency))
    assert set(str(kept)[6:]) <= {"0"}


def test_memory_is_bounded() -> None:
    latencies = Latencies()
    for latency in range(0, 40_000_000, 61):
        latencies.record(latency)
    assert latencies.count > 650_000
    assert len(latencies._numbers) < 350_000


def test_nothing_has_no_percentiles() -> None:
    assert (Latencies().percentiles([0.5, 0.99]), Latencies().average) == ([0, 0], 0.0)


def test_a_window_ends_with_the_first_record_after_its_time() -> None:
    measured = Throughput(10.0, 1.0)
    assert measured.record(5, 2, 20, 10.5) is None
    assert measured.record(9, 1, 10, 11.25) == Window(0, 1.25, 3, 30, 19, 9)
    assert measured.record(1, 1, 10, 12.0) is None
    assert measured.record(3, 1, 10, 12.25) == Window(1, 1.0, 2, 20, 4, 3)
    assert (measured.size, measured.latencies.count, measured.latencies.highest) == (50, 5, 9)


@given(st.floats(0.01, 1e6), st.lists(st.floats(0, 0.5), min_size=1, max_size=60))
def test_no_more_is_sent_than_the_rate_allows_and_it_catches_up(rate: float, steps: list[float]) -> None:
    pace = Pace(rate, 100.0)
    now, sent = 100.0, 0
    for step in steps:
        now += step
        sent += pace.due(sent, now)
        assert abs(sent - 1 - int((now - 100.0) * rate)) == 0
        assert pace.due(sent, now) == 0
        wait = pace.wait_s(sent, now)
        assert 0 < wait <= 1 / rate * (1 + 1e-6) + 1e-9
        assert pace.due(sent, now + wait + 1e-6 + 1e-9 / rate) >= 1


def test_without_a_rate_all_is_due() -> None:
    pace = Pace(None, 0.0)
    assert pace.due(10**12, 0.0) > 10**9
    assert pace.wait_s(10**12, 0.0) == 0.0


@pytest.fixture
def utc_plus_one(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-01:00")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2023-11-14 23:13:20:007"),
        ("yy/M/d h:m:s.S a", "23/11/14 11:13:20.7 PM"),
        ("EEE, d MMM yyyy 'o''clock' ''k''", "Tue, 14 Nov 2023 o'clock '23'"),
        ("EEEE MMMM D u K", "Tuesday November 318 2 11"),
        ("HH:mm Z X XX XXX", "23:13 +0100 +01 +0100 +01:00"),
        ("", ""),
    ],
)
@pytest.mark.usefixtures("utc_plus_one")
def test_times_in_javas_formats(pattern: str, text: str) -> None:
    assert java_date_format(pattern)(1_700_000_000_007) == text


@pytest.mark.parametrize(
    ("pattern", "problem"), [("yyyy Q", "yyyy Q: unknown letter Q; the letters are "), ("'open", "'open: a quote (') is not closed")]
)
def test_unknown_letters_are_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        java_date_format(pattern)
