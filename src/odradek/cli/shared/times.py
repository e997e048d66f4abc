"""Parser of times and durations in the notation of Kafka's scripts: ISO 8601, UTC for times without a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?", re.ASCII | re.IGNORECASE
)
_SECONDS: Final = (86_400, 3_600, 60, 1)


def instant_ms(text: str) -> int:
    """Return the Unix milliseconds of an ISO 8601 time such as `2023-11-14T22:13:20.500+01:00`. Raises ValueError for other text.

    A time before 1970 becomes 0: no record is older, and brokers read negative times as special offsets (-1 is the end).
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text}: expected a time such as 2023-11-14T22:13:20.000, or with a zone, 2023-11-14T22:13:20+01:00") from None
    zoned = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return max(since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000, 0)


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as `P1DT2H3M4.5S`. Raises ValueError for other text.

    Source: java.time.Duration.parse.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ValueError(f"{text}: expected a duration such as P7D, PT12H or P1DT2H3M4.5S")
    total = Fraction(0)
    for amount, seconds in zip(found.groups()[1:], _SECONDS, strict=True):
        if amount is not None:
            total += Fraction(amount.replace(",", ".").rstrip(".")) * seconds
    return int((-total if found[1] == "-" else total) * 1_000)
