"""Formats of times by the patterns of java.text.SimpleDateFormat, which Kafka's scripts take."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+")
_NUMBERS: Final[dict[str, Callable[[datetime], int]]] = {
    "M": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.microsecond // 1000,
    "u": lambda moment: moment.isoweekday(),
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
        found = _PIECE.match(pattern, position)
        if found is None:
            raise ValueError(f"{pattern}: a quote is not closed")
        position = found.end()
        letter = found[2]
        if letter is None:
            quoted = found[1]
            text = found[0] if quoted is None else quoted.replace("''", "'") or "'"
            parts.append(lambda _, text=text: text)  # type: ignore[misc]
        else:
            parts.append(_field(pattern, letter, len(found[0])))

    def render(unix_ms: int) -> str:
        moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=unix_ms)).astimezone()
        return "".join([part(moment) for part in parts])

    return render


def _field(pattern: str, letter: str, width: int) -> Callable[[datetime], str]:
    if letter == "y":
        return lambda moment: f"{moment.year % 100:02}" if width == 2 else f"{moment.year:0{width}}"
    if letter == "M" and width > 2:
        return lambda moment: _MONTHS[moment.month - 1][: None if width > 3 else 3]
    if letter == "E":
        return lambda moment: _DAYS[moment.weekday()][: None if width > 3 else 3]
    if letter == "a":
        return lambda moment: "AM" if moment.hour < 12 else "PM"
    if letter == "Z":
        return lambda moment: moment.strftime("%z")
    if letter == "X":
        return lambda moment: _zone(moment.strftime("%z"), width)
    number = _NUMBERS.get(letter)
    if number is None:
        raise ValueError(f"{pattern}: there is no {letter}; there are yMdDEHkKhmsSauZX, and text in '")
    return lambda moment: f"{number(moment):0{width}}"


def _zone(offset: str, width: int) -> str:
    if offset == "+0000":
        return "Z"
    return {1: offset[:3], 2: offset}.get(width, f"{offset[:3]}:{offset[3:]}")
