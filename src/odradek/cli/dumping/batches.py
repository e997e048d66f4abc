"""Reader of the batches of a segment or snapshot. Only one batch is in memory (Kafka's FileLogInputStream)."""

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
"""Smallest length of a batch in bytes, without offset and length field."""
_NEGATIVE: Final = 128
"""First magic that is negative in Kafka, where the magic is a signed byte."""


class UnreadableError(OdradekError):
    """Error for a file or a part of a file that has another format than expected; the message is one line."""


class FileBatch(NamedTuple):
    """Batch of a file, with all of its bytes."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_valid(self) -> bool:
        """Whether the checksum of the batch is right."""
        return batches.check_crc(self.data, 0, self.header)

    def records(self) -> list[Record]:
        """Return the decompressed records. Raises KafkaError or ProtocolError when the records cannot be read."""
        return batches.decode_batch(self.data, 0, self.header)

    def messages(self) -> list[tuple[Record, int, bool]]:
        """Return the records of a batch of magic 0 or 1, each with its checksum and whether the checksum is right."""
        return legacy.decode_checked(self.data, 0, self.header)


def read_batches(file: File, path: str, start: int, end: int) -> Iterator[FileBatch]:
    """Yield the complete batches between the positions `start` (inclusive) and `end` (exclusive).

    Raises UnreadableError for an impossible length.
    """
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
    """Return the header. Like Kafka's reader of files, take a magic above 2 for the layout of magic 2."""
    magic = data[batches.MAGIC_OFFSET]
    if not batches.MAGIC_V2 < magic < _NEGATIVE:
        return batches.read_header(data)
    plain = bytearray(data)
    plain[batches.MAGIC_OFFSET] = batches.MAGIC_V2
    return batches.read_header(plain)._replace(magic=magic)
