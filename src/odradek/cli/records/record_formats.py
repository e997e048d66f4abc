"""Formatters with kcat's output: values, keys and values, or a format."""

from __future__ import annotations

import click

from odradek.cli.records.console_formatter import Formatter
from odradek.client.types import ConsumerRecord


def no_output(_: ConsumerRecord) -> bytes:
    """Return no bytes, like NoOpMessageFormatter."""
    return b""


def plain(delimiter: bytes, key_delimiter: bytes | None) -> Formatter:
    """Return a formatter for the value and `delimiter`. With `key_delimiter` the formatter puts the key before the value."""
    if key_delimiter is None:
        return lambda record: (record.value or b"") + delimiter
    return lambda record: (record.key or b"") + key_delimiter + (record.value or b"") + delimiter


def template_formatter(template: bytes) -> Formatter:
    """Return a formatter for kcat's -f. Raises UsageError for an unknown directive."""
    parts: list[bytes | Formatter] = []
    for number, text in enumerate(template.split(b"%%")):
        if number:
            parts.append(b"%")
        for index, literal in enumerate(text.split(b"%")):
            if index:
                directive, literal = literal[:1].decode("latin-1"), literal[1:]
                if directive not in _DIRECTIVES:
                    raise click.UsageError(
                        f"-f: unknown directive %{directive}; the directives are {' '.join('%' + name for name in _DIRECTIVES)}"
                    )
                parts.append(_DIRECTIVES[directive])
            parts.append(literal)

    def render(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return render


def _length(content: bytes | None) -> bytes:
    return b"-1" if content is None else str(len(content)).encode()


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join([name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers])


_DIRECTIVES: dict[str, Formatter] = {
    "s": lambda record: record.value or b"",
    "S": lambda record: _length(record.value),
    "k": lambda record: record.key or b"",
    "K": lambda record: _length(record.key),
    "h": _headers,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "T": lambda record: str(record.timestamp).encode(),
}
