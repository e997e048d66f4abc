"""Times and durations of command lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.shared.times import duration_ms, instant_ms

T0 = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20", T0),
        ("2023-11-14T22:13:20.500", T0 + 500),
        ("2023-11-14T22:13:20Z", T0),
        ("2023-11-14T23:13:20+01:00", T0),
        ("2023-11-14T22:13:20.5-0100", T0 + 500 + 3_600_000),
        ("1970-01-01T00:00:00", 0),
        ("1969-12-31T23:59:59.999", 0),  # -1 is the end, for brokers
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, expected: int) -> None:
    assert instant_ms(text) == expected


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_a_time_is_the_same_in_every_zone(moment: datetime, minutes: int) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    expected = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert instant_ms(moment.isoformat(timespec="milliseconds") + zone) == expected - minutes * 60_000


@pytest.mark.parametrize("text", ["yesterday", "", "12:00", "2023-13-01T00:00:00", "1700000000000"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as"):
        instant_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", 86_400_000),
        ("PT1H", 3_600_000),
        ("PT1M", 60_000),
        ("PT1S", 1_000),
        ("PT0.0015S", 1),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt1m", 60_000),
        ("P0D", 0),
        ("PT-1H", -3_600_000),
        ("-PT1H", -3_600_000),
        ("-PT-1H30M", 3_600_000 - 1_800_000),
        ("PT1,5S", 1_500),
    ],
)
def test_durations_are_those_of_java(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "1D", "P1DT", "P1H", "PT1D", "P1W", "nonsense", "PT.5S"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        duration_ms(text)
