"""Frames: every request and response is preceded by its size as a signed 32-bit number."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from odradek.protocol.schema import Chunk

_SIZE: Final = struct.Struct(">i")


def encode_size(size: int) -> bytes:
    """Return the prefix of a frame of `size` bytes."""
    return _SIZE.pack(size)


def chunk_size(chunk: Chunk) -> int:
    """Return the size of a chunk in bytes, in memory or not."""
    # A tuple: checking against a union takes several times as long.
    return len(chunk) if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.size


def frame(*parts: bytes) -> bytes:
    """Return a whole frame of the given parts."""
    body = b"".join(parts)
    return _SIZE.pack(len(body)) + body


def frame_chunks(header: bytes, chunks: Iterable[Any]) -> list[Any]:
    """Return a frame of a header and the chunks of a message (`Message.encode_chunks`).

    Size and header are joined to the first chunk if that is in memory.
    """
    body = list(chunks)
    if len(body) == 1 and type(body[0]) is bytes:
        whole = body[0]
        return [_SIZE.pack(len(header) + len(whole)) + header + whole]
    prefix = _SIZE.pack(len(header) + sum([chunk_size(chunk) for chunk in body])) + header
    if body and isinstance(body[0], bytes):
        body[0] = prefix + body[0]
        return body
    return [prefix, *body]
