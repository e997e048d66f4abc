"""Pool of buffers for batches (org.apache.kafka.clients.producer.internals.BufferPool; `Accumulator` has the bound on memory).

A fresh buffer costs a page fault every 4 KiB, which is more than writing the records into it.
"""

from __future__ import annotations

from collections import deque

_KEPT_BYTES = 8 * 1024 * 1024


class BufferPool:
    """Pool of buffers of a few sizes. Any thread may take and give back buffers."""

    __slots__ = ("_free",)

    def __init__(self, *sizes: int) -> None:
        """Keep buffers of these sizes in bytes: of each size at most 8 MiB, and at least one buffer."""
        self._free = {size: deque[bytearray](maxlen=max(1, _KEPT_BYTES // size)) for size in sizes}

    def take(self, needed: int) -> bytearray:
        """Return a buffer of at least `needed` bytes (at most twice that); its contents are undefined.

        The limit keeps many small batches from holding much more memory than the accumulator counts.
        """
        for size, free in self._free.items():
            if size // 2 <= needed <= size:
                try:
                    return free.pop()
                except IndexError:
                    return bytearray(size)
        return bytearray(needed)

    def give(self, payload: bytes | memoryview | None) -> None:
        """Take back the buffer behind `payload`, if it has one of the pool's sizes. The caller must not read the payload afterwards."""
        if type(payload) is memoryview:
            buffer = payload.obj
            if type(buffer) is bytearray and (free := self._free.get(len(buffer))) is not None:
                free.append(buffer)
