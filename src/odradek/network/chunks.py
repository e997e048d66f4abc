"""Chunks of a response: bytes in memory, or slices of files that are read when they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred


class FileChunk(Protocol):
    """Bytes of a file that are read when they are sent."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` within the chunk; may block. OSError, StorageError or a short result ends the connection."""
        ...

    def read_cached(self, offset: int, size: int) -> bytes | bytearray | None:
        """Return the same bytes as `read`, or None when that would block."""
        ...

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        """Send the bytes from the kernel to a socket without copying, and return how many were taken: 0 when the socket is full.

        Return None when that would block or is impossible. Raises OSError (ConnectionError for a failure of the socket) or StorageError.
        """
        ...

    def release(self) -> None:
        """Release the chunk, which will not be read again."""
        ...


Bytes: TypeAlias = "bytes | bytearray | memoryview"
Chunk: TypeAlias = "bytes | bytearray | memoryview | FileChunk"
Answer: TypeAlias = "Sequence[Chunk] | Deferred[Sequence[Chunk] | None] | None"
"""Whole frames, including the size prefix; None when the protocol wants no response. Chunks never alias the request's bytes."""


def memory_of(chunks: Sequence[Chunk]) -> int:
    """Return the bytes in memory among `chunks`; those of files do not count."""
    return sum([len(chunk) for chunk in chunks if isinstance(chunk, (bytes, bytearray, memoryview))])


def release_chunks(chunks: Sequence[Chunk]) -> None:
    """Release the file chunks among `chunks`."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()


def join_chunks(chunks: Sequence[Chunk]) -> bytes:
    """Return the bytes of a response, for callers without a socket. File chunks are read, which may block, and released."""
    try:
        return b"".join([chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read(0, chunk.size) for chunk in chunks])
    finally:
        release_chunks(chunks)
