"""Ranges of records to read, from -o of `odradek consume`: a start and an end.

The notations come from kcat (`s@MS`, `e@MS`) and rpk (`10:20`, `:end`, `+5`, `@-2h:-1h`). A range stands for a start and an end position
in each partition. The end position is fixed when reading begins, and is at most the partition's end at that time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal, NamedTuple

import click

from odradek.cli.shared.times import instant_ms

Kind = Literal["beginning", "end", "offset", "after", "before", "time", "elapsed"]

_NAMES: Final[dict[str, Kind]] = {
    "beginning": "beginning",
    "earliest": "beginning",
    "oldest": "beginning",
    "start": "beginning",
    "end": "end",
    "latest": "end",
    "newest": "end",
}
_DURATION: Final = r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+"
_INSTANT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
_FIRST_TIME: Final = re.compile(rf"(-?{_DURATION}|{_INSTANT}|[^:]*)(?::|$)")
"""First time of a range. A time of day contains colons, so the colon that separates start and end is the first after the whole time."""
_PART: Final = re.compile(r"([0-9.]+)(ms|[smhdw])")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LATEST_MS: Final = (1 << 63) - 1


class Position(NamedTuple):
    """Position in each partition.

    `number` depends on the kind. "offset": an offset. "after": records after the first offset (for an end: after the start). "before":
    records before the end. "time": Unix milliseconds, 0 or more. "elapsed": milliseconds after the time of the start.
    """

    kind: Kind
    number: int = 0


class Range(NamedTuple):
    """Range to read. Without an `end` reading does not stop."""

    start: Position
    end: Position | None = None


class Log(NamedTuple):
    """Offsets of a partition: the first, and the end of the readable records (exclusive).

    `start_time` and `end_time` are the offsets for the times of a range, None for a time after the last record.
    """

    first: int
    last: int
    start_time: int | None = None
    end_time: int | None = None


BEGINNING: Final = Position("beginning")
END: Final = Position("end")


def parse_range(texts: Sequence[str], default: Position, now_ms: int) -> Range:
    """Return the range of all -o options. Raises UsageError for a malformed or repeated position, and for an end before the start.

    Without options the range starts at `default`. A range with only an end starts at the beginning.
    """
    start: Position | None = None
    end: Position | None = None
    for text in texts:
        starts, ends = _parsed(text, now_ms)
        if (starts is not None and start is not None) or (ends is not None and end is not None):
            raise click.UsageError(f"-o {text}: another -o gives the {'start' if starts is not None else 'end'} already")
        start, end = starts or start, ends or end
    if end is None:
        return Range(start or default)
    start = start or BEGINNING
    shown = " ".join(f"-o {text}" for text in texts)
    if start.kind == "end":
        raise click.UsageError(f"{shown}: the range starts at the end, so it is always empty")
    if end.kind == "elapsed":
        if start.kind != "time":
            raise click.UsageError(f"{shown}: an end such as 1h counts from the start, which must be a time; for an hour ago write -1h")
        end = Position("time", min(start.number + end.number, _LATEST_MS))
    if start.kind == end.kind and start.kind in ("offset", "time") and end.number < start.number:
        raise click.UsageError(f"{shown}: the range ends before it starts")
    if start.kind == end.kind == "before" and end.number > start.number:
        raise click.UsageError(f"{shown}: the range ends before it starts")
    return Range(start, end)


def start_in(wanted: Position, log: Log) -> int:
    """Return the offset at which reading starts, limited to the log's offsets."""
    if wanted.kind == "beginning":
        return log.first
    if wanted.kind == "end":
        return log.last
    if wanted.kind == "time":
        return log.last if log.start_time is None else log.start_time
    if wanted.kind == "before":
        return max(log.first, log.last - wanted.number)
    asked = log.first + wanted.number if wanted.kind == "after" else wanted.number
    return min(max(asked, log.first), log.last)


def end_in(wanted: Position, start: int, log: Log) -> int:
    """Return the offset at which reading ends (exclusive): at least `start`, at most the log's end."""
    asked = log.last
    if wanted.kind == "offset":
        asked = wanted.number
    elif wanted.kind == "after":
        asked = start + wanted.number
    elif wanted.kind == "before":
        asked = log.last - wanted.number
    elif wanted.kind == "time" and log.end_time is not None:
        asked = log.end_time
    return max(start, min(asked, log.last))


def _parsed(text: str, now_ms: int) -> tuple[Position | None, Position | None]:
    """Return start and end, None for a missing part."""
    if text.startswith("s@"):
        return _start_time(text, text[2:], now_ms, unit_by_length=False), None
    if text.startswith("e@"):
        return None, _end_time(text, text[2:], now_ms, unit_by_length=False)
    if text.startswith("@"):
        found = _FIRST_TIME.match(text, 1)
        first, last = (found[1], text[found.end() :]) if found is not None else ("", "")
        if not first and not last:
            raise _no_time(text)
        ends = None if not last else END if _NAMES.get(last) == "end" else _end_time(text, last.removeprefix("@"), now_ms)
        return _start_time(text, first, now_ms) if first else None, ends
    first, colon, last = text.partition(":")
    if not first and not last:
        raise _no_position(text)
    starts = _position(text, first) if first else None
    if not colon or not last:
        return starts, None
    return starts, _end_time(text, last[1:], now_ms) if last.startswith("@") else _end(text, last)


def _end(whole: str, text: str) -> Position:
    found = _position(whole, text)
    if found.kind == "beginning":
        raise click.UsageError(f"-o {whole}: a range cannot end at the {text}")
    return found


def _position(whole: str, text: str) -> Position:
    if text in _NAMES:
        return Position(_NAMES[text])
    if text == "stored":
        raise click.UsageError(f"-o {whole}: to read from the committed offsets of a group, use -G GROUP")
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not _is_number(digits):
        raise _no_position(whole)
    kinds: dict[str, Kind] = {"": "offset", "+": "after", "-": "before"}
    return Position(kinds[sign], int(digits))


def _start_time(whole: str, text: str, now_ms: int, *, unit_by_length: bool = True) -> Position:
    found = _time(whole, text, now_ms, unit_by_length)
    if found.kind == "elapsed":
        raise click.UsageError(f"-o {whole}: the range starts in the future; for a time in the past write -{text}")
    return found


def _end_time(whole: str, text: str, now_ms: int, *, unit_by_length: bool = True) -> Position:
    return _time(whole, text, now_ms, unit_by_length)


def _time(whole: str, text: str, now_ms: int, unit_by_length: bool) -> Position:
    """Parse a time. As in `instant_ms`, a time before 1970 becomes 0."""
    if _is_number(text) and (not unit_by_length or len(text) in (10, 13)):
        return Position("time", int(text) * (1_000 if unit_by_length and len(text) == 10 else 1))
    if re.fullmatch(f"-?{_DURATION}", text):
        length = int(sum(Fraction(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))
        return Position("time", max(now_ms - length, 0)) if text.startswith("-") else Position("elapsed", length)
    if re.fullmatch(_INSTANT, text):
        try:
            return Position("time", instant_ms(text))
        except ValueError:
            pass
    raise _no_time(whole)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18  # 18 digits fit into an int64


def _no_position(text: str) -> click.UsageError:
    return click.UsageError(f"-o {text}: expected beginning, end, N, +N, -N, @TIME, or a range of two of them, START:END")


def _no_time(text: str) -> click.UsageError:
    digits = "milliseconds since 1970" if text[:2] in ("s@", "e@") else "10 digits (seconds since 1970) or 13 digits (milliseconds)"
    return click.UsageError(
        f"-o {text}: expected a time such as 2023-11-14, 2023-11-14T22:13:20 (UTC without a zone), -2h or -1d12h, or {digits}"
    )
