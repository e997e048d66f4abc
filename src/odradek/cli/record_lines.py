"""Lines for `odradek produce`: a stream taken apart at a delimiter, and lines taken apart into keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Final

from odradek.cli.progress import Progress

_BLOCK: Final = 1 << 20


def split(stream: IO[bytes], delimiter: bytes, progress: Progress | None) -> Iterator[bytes]:
    """The records of a stream, as they arrive; the last needs no delimiter after it."""
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK):
        if progress is not None:
            progress.advance(len(block))
        parts = (rest + block).split(delimiter)
        rest = parts.pop()
        yield from parts
    if rest:
        yield rest


def limit(records: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    """The first `count` of them, or all; does not ask for one more than that."""
    for number, record in enumerate(records, 1):
        yield record
        if number == count:
            return


class Shape:
    """How a line becomes key, value and headers."""

    def __init__(
        self, key_delimiter: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], empty_is_null: bool
    ) -> None:
        self.key_delimiter = key_delimiter
        self.key = key
        self.headers = headers
        self.empty_is_null = empty_is_null

    @property
    def is_plain(self) -> bool:
        """Whether a line is a value, and nothing else is sent with it."""
        return self.key_delimiter is None and self.key is None and not self.headers

    def key_and_value(self, record: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a line."""
        key: bytes | None = self.key
        value: bytes | None = record
        if self.key_delimiter is not None and self.key_delimiter in record:
            key, _, value = record.partition(self.key_delimiter)
        if self.empty_is_null:
            return key or None, value or None
        return key, value
