"""Java's .properties format, as java.util.Properties.load reads it.

Rules: `#` and `!` begin comment lines; `=`, `:` or white space separates key and value; a line ending in an odd number of backslashes
continues on the next, whose leading white space is dropped; `\\t \\n \\r \\f \\uXXXX` are escapes, any other escaped character is itself.
The last of several values for a key wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.base.errors import ConfigError

_WHITE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Setting(NamedTuple):
    """Setting of a properties file; `line` is the number of the line with the key, counted from 1."""

    key: str
    value: str
    line: int


class MalformedProperties(ConfigError):
    """Error for a line that is not in the format."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def parse_properties(text: str) -> dict[str, str]:
    """Return keys and values in the order of the file. Raises MalformedProperties on a malformed `\\u` escape."""
    return {setting.key: setting.value for setting in read_settings(text)}


def read_settings(text: str) -> list[Setting]:
    """Return all settings in the order of the file, repeated keys included. Raises MalformedProperties on a malformed `\\u` escape."""
    found: list[Setting] = []
    for number, line in _logical_lines(text):
        end = _key_end(line)
        position = end
        while position < len(line) and line[position] in _WHITE:
            position += 1
        if position < len(line) and line[position] in "=:":
            position += 1
            while position < len(line) and line[position] in _WHITE:
                position += 1
        found.append(Setting(_unescape(line[:end], number), _unescape(line[position:], number), number))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, with continuation lines joined, and the number of their first natural line."""
    pending: str | None = None
    first = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(_WHITE)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, first = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = None
    if pending:
        yield first, pending


def _key_end(line: str) -> int:
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
            continue
        if character in "=:" or character in _WHITE:
            break
        position += 1
    return min(position, len(line))


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        if position >= len(text):
            break
        character = text[position]
        position += 1
        if character != "u":
            out.append(_ESCAPES.get(character, character))
            continue
        digits = text[position : position + 4]
        try:
            if len(digits) != 4 or not digits.isalnum():
                raise ValueError
            out.append(chr(int(digits, 16)))
        except ValueError:
            raise MalformedProperties(f"Malformed \\uxxxx encoding: \\u{digits} (a backslash itself is written \\\\)", line) from None
        position += 4
    # Two \u escapes may be the surrogates of one character outside the basic plane.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
