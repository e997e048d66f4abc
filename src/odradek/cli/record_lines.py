"""Lines for `odradek produce`: a stream taken apart at a delimiter, and lines taken apart into keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final

_BLOCK: Final = 1 << 20


def runs(stream: IO[bytes], delimiter: bytes, told: Callable[[int], None] | None = None) -> Iterator[list[bytes]]:
    """The records of a stream, as many together as one read brought: those of a slow writer do not wait for others.

    The last needs no delimiter after it. `told` hears how many bytes each read brought.
    """
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK):
        if told is not None:
            told(len(block))
        parts = (rest + block).split(delimiter)
        rest = parts.pop()
        if parts:
            yield parts
    if rest:
        yield [rest]


def limit(records: Iterable[list[bytes]], count: int | None) -> Iterator[list[bytes]]:
    """The first `count` of them, or all; does not ask for one more than that."""
    left = count
    for run in records:
        yield run if left is None else run[:left]
        if left is not None:
            left -= len(run)
            if left <= 0:
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
