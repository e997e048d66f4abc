"""Lines for `odradek produce`: division of a stream at a delimiter, and of lines into keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final

_BLOCK: Final = 1 << 20


def record_chunks(stream: IO[bytes], delimiter: bytes, on_read: Callable[[int], None] | None = None) -> Iterator[list[bytes]]:
    """Yield the records of a stream, all complete records of a read together. Records of a slow writer do not wait for later records.

    The last record needs no delimiter after it. `told` is called with the number of bytes of each read.
    """
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while block := read(_BLOCK):
        if on_read is not None:
            on_read(len(block))
        parts = (rest + block).split(delimiter)
        rest = parts.pop()
        if parts:
            yield parts
    if rest:
        yield [rest]


def limit(records: Iterable[list[bytes]], count: int | None) -> Iterator[list[bytes]]:
    """Yield the first `count` records, or all without a count. The input is not read beyond the run that has the last of these records."""
    left = count
    for chunk in records:
        yield chunk if left is None else chunk[:left]
        if left is not None:
            left -= len(chunk)
            if left <= 0:
                return


class Shape:
    """Rules by which a line becomes key, value and headers."""

    def __init__(
        self, key_delimiter: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], empty_is_null: bool
    ) -> None:
        self.key_delimiter = key_delimiter
        self.key = key
        self.headers = headers
        self.empty_is_null = empty_is_null

    @property
    def is_plain(self) -> bool:
        """Whether a record consists of a value only, without key and headers."""
        return self.key_delimiter is None and self.key is None and not self.headers

    def key_and_value(self, record: bytes) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a line."""
        key: bytes | None = self.key
        value: bytes | None = record
        if self.key_delimiter is not None and self.key_delimiter in record:
            key, _, value = record.partition(self.key_delimiter)
        if self.empty_is_null:
            return key or None, value or None
        return key, value
