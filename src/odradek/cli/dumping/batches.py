"""The batches of a segment or snapshot, one after the other: only one is in memory (Kafka's FileLogInputStream)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.base.disk import File
from odradek.base.errors import OdradekError
from odradek.records import batch as batches
from odradek.records import legacy
from odradek.records.batch import BatchHeader, Record

_SIZE: Final = struct.Struct(">i")
_LEAST: Final = 14
"""The shortest record length there is."""
_NEGATIVE: Final = 128
"""Magics from here on are negative numbers to Kafka."""


class UnreadableError(OdradekError):
    """A file, or a part of it, that cannot be read as what it should be; one line."""


class FileBatch(NamedTuple):
    """A batch of a file, with all of its bytes."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_valid(self) -> bool:
        """Whether its checksum is right."""
        return batches.check_crc(self.data, 0, self.header)

    def records(self) -> list[Record]:
        """Decompressed; KafkaError or ProtocolError when they cannot be read."""
        return batches.decode_batch(self.data, 0, self.header)

    def messages(self) -> list[tuple[Record, int, bool]]:
        """Of a batch of magic 0 or 1: its records, each with its own checksum, and whether that is right."""
        return legacy.decode_checked(self.data, 0, self.header)


def read_batches(file: File, path: str, start: int, end: int) -> Iterator[FileBatch]:
    """The whole batches in `[start, end)`; UnreadableError where a length cannot be."""
    position = start
    while position < end - batches.HEADER_SIZE_UP_TO_MAGIC:
        prefix = file.pread(batches.HEADER_SIZE_UP_TO_MAGIC, position)
        (length,) = _SIZE.unpack_from(prefix, 8)
        if length < _LEAST:
            raise UnreadableError(f"Found record size {length} smaller than minimum record overhead ({_LEAST}) in file {path}.")
        size = length + batches.LOG_OVERHEAD
        if position > end - size:
            return
        data = file.pread(size, position)
        yield FileBatch(position, _header(data), data)
        position += size


def _header(data: bytes) -> BatchHeader:
    """A magic above 2 has the layout of 2, as far as Kafka's reader of files is concerned."""
    magic = data[batches.MAGIC_OFFSET]
    if not batches.MAGIC_V2 < magic < _NEGATIVE:
        return batches.read_header(data)
    plain = bytearray(data)
    plain[batches.MAGIC_OFFSET] = batches.MAGIC_V2
    return batches.read_header(plain)._replace(magic=magic)
