"""Formats of times by the patterns of java.text.SimpleDateFormat, which Kafka's scripts take."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+")
_NUMBERS: Final[dict[str, Callable[[datetime], int]]] = {
    "M": lambda time: time.month,
    "d": lambda time: time.day,
    "D": lambda time: time.timetuple().tm_yday,
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
    "S": lambda time: time.microsecond // 1000,
    "u": lambda time: time.isoweekday(),
}
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

DateFormat = Callable[[int], str]
"""Function from Unix milliseconds to text, in the time zone of this machine."""


def java_date_format(pattern: str) -> DateFormat:
    """Return the format for a pattern of SimpleDateFormat, with English names. Raises ValueError for an unsupported pattern."""
    parts: list[Callable[[datetime], str]] = []
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            raise ValueError(f"{pattern}: a quote (') is not closed")
        position = found.end()
        letter = found[2]
        if letter is None:
            quoted = found[1]
            text = found[0] if quoted is None else quoted.replace("''", "'") or "'"
            parts.append(lambda _, text=text: text)  # type: ignore[misc]
        else:
            parts.append(_field(pattern, letter, len(found[0])))

    def render(unix_ms: int) -> str:
        time = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=unix_ms)).astimezone()
        return "".join([part(time) for part in parts])

    return render


def _field(pattern: str, letter: str, width: int) -> Callable[[datetime], str]:
    if letter == "y":
        return lambda time: f"{time.year % 100:02}" if width == 2 else f"{time.year:0{width}}"
    if letter == "M" and width > 2:
        return lambda time: _MONTHS[time.month - 1][: None if width > 3 else 3]
    if letter == "E":
        return lambda time: _DAYS[time.weekday()][: None if width > 3 else 3]
    if letter == "a":
        return lambda time: "AM" if time.hour < 12 else "PM"
    if letter == "Z":
        return lambda time: time.strftime("%z")
    if letter == "X":
        return lambda time: _zone(time.strftime("%z"), width)
    number = _NUMBERS.get(letter)
    if number is None:
        raise ValueError(f"{pattern}: unknown letter {letter}; the letters are yMdDEHkKhmsSauZX; put text between quotes (')")
    return lambda time: f"{number(time):0{width}}"


def _zone(offset: str, width: int) -> str:
    if offset == "+0000":
        return "Z"
    return {1: offset[:3], 2: offset}.get(width, f"{offset[:3]}:{offset[3:]}")
