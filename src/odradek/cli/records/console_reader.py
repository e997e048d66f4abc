"""Reader of lines with headers, key and value, like kafka-console-producer's (Java class LineMessageReader of Kafka 4.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Final, NamedTuple

import click

from odradek.base.errors import OdradekError
from odradek.cli.shared.client_command import typed_bytes

_BLOCK: Final = 1 << 16
_END_OF_LINE: Final = re.compile(rb"\r\n|\n|\r")
_SWITCHES: Final = ("parse.key", "parse.headers", "ignore.error")
_TEXTS: Final = {"key.separator": "\t", "headers.delimiter": "\t", "headers.separator": ",", "headers.key.separator": ":"}
PROPERTIES: Final = (*_SWITCHES, *_TEXTS, "null.marker")
_DIFFERENT: Final = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)


class Line(NamedTuple):
    """Record that a line describes. `timestamp` is Unix milliseconds, None for the current time."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp: int | None = None


LineParser = Callable[[bytes, int], Line]


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    r"""Yield the lines of a stream as they arrive, without their end: \n, \r or \r\n. The last line needs no end.

    Source: Java's BufferedReader.readLine.
    """
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK):
        parts = _END_OF_LINE.split(rest + block)
        rest = parts.pop()
        if not rest and block.endswith(b"\r"):
            rest = parts.pop() + b"\r"  # the next block may begin with the \n of this \r
        yield from parts
    if rest:
        yield rest.removesuffix(b"\r")


def line_parser(properties: Mapping[str, str]) -> LineParser:
    """Return the parser for properties of --reader-property; its arguments are a line and the line's number from 1.

    Raises UsageError for unknown properties and for properties that exclude one another.

    The parser raises OdradekError for a line without an expected separator. With ignore.error=true such a line has no key or no headers
    instead, and a header without a separator has the value null. A header whose key is the null marker is always an OdradekError.
    """
    for name in properties:
        if name not in PROPERTIES:
            raise click.UsageError(f"--reader-property {name}: unknown property; the properties are {', '.join(PROPERTIES)}")
    texts = _TEXTS | {name: properties[name] for name in (*_TEXTS, "null.marker") if name in properties}
    for first, second in _DIFFERENT:
        if texts.get(first) == texts[second]:
            raise click.UsageError(f"--reader-property: {first} and {second} may not be equal")
    for name in ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator"):
        if not texts[name]:
            raise click.UsageError(f"--reader-property {name}: expected at least one character")
    try:
        between_headers = re.compile(typed_bytes(texts["headers.separator"]))
    except re.error as error:
        raise click.UsageError(f"--reader-property headers.separator: invalid regular expression: {error}") from None
    parse_key, parse_headers, ignore_error = (properties.get(name, "").strip().lower() == "true" for name in _SWITCHES)
    marker = typed_bytes(texts["null.marker"]) if "null.marker" in texts else None

    def split_off(rest: bytes, separator: str, what: str, number: int, line: bytes) -> tuple[bytes | None, bytes]:
        before, found, after = rest.partition(typed_bytes(separator))
        if found:
            return before, after
        if ignore_error:
            return None, rest
        raise OdradekError(f"No {what} found on line number {number}: '{line.decode('utf-8', 'replace')}'")

    def headers_of(text: bytes, number: int) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        for pair in _split(between_headers, text):
            name, colon, value = pair.partition(typed_bytes(texts["headers.key.separator"]))
            if not colon and not ignore_error:
                raise OdradekError(f"No header key separator found in pair '{pair.decode('utf-8', 'replace')}' on line number {number}")
            if colon and name == marker:
                raise OdradekError(f"A header's key on line number {number} is the null marker '{name.decode('utf-8', 'replace')}'")
            found.append((name.decode("utf-8", "replace"), value if colon and value != marker else None))
        return found

    def parse(line: bytes, number: int) -> Line:
        headers: bytes | None = None
        key: bytes | None = None
        rest = line
        if parse_headers:
            headers, rest = split_off(rest, texts["headers.delimiter"], "headers delimiter", number, line)
        if parse_key:
            key, rest = split_off(rest, texts["key.separator"], "key separator", number, line)
        return Line(
            None if key == marker else key,
            None if rest == marker else rest,
            [] if headers is None or headers == marker else headers_of(headers, number),
        )

    return parse


def _split(pattern: re.Pattern[bytes], text: bytes) -> list[bytes]:
    """Split like Java's Pattern.split: omit empty parts at the end, and return a text without a match as one part."""
    parts: list[bytes] = []
    position = 0
    for match in pattern.finditer(text):
        if match.end() == 0:
            continue
        parts.append(text[position : match.start()])
        position = match.end()
    if not position:
        return [text]
    parts.append(text[position:])
    while parts and not parts[-1]:
        parts.pop()
    return parts
