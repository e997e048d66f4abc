"""Buffers of batches, used again (org.apache.kafka.clients.producer.internals.BufferPool, without its bound: `Accumulator` has that).

Memory that was never touched costs a page fault every 4 KiB, more than writing the records into it.
"""

from __future__ import annotations

from collections import deque

_KEPT_BYTES = 8 * 1024 * 1024


class BufferPool:
    """Buffers of a few sizes. Any thread may take and give."""

    __slots__ = ("_free",)

    def __init__(self, *sizes: int) -> None:
        """The sizes in bytes; of each, at most 8 MiB (and one buffer at least) are kept."""
        self._free = {size: deque[bytearray](maxlen=max(1, _KEPT_BYTES // size)) for size in sizes}

    def take(self, needed: int) -> bytearray:
        """A buffer of so many bytes or somewhat more, with anything in it.

        It has more than twice as many at no time: many small batches would hold much more memory than is accounted for.
        """
        for size, free in self._free.items():
            if size // 2 <= needed <= size:
                try:
                    return free.pop()
                except IndexError:
                    return bytearray(size)
        return bytearray(needed)

    def give(self, payload: bytes | memoryview | None) -> None:
        """Takes back the buffer of which a payload is part, if it is of one of the sizes. Nobody may read the payload any more."""
        if type(payload) is memoryview:
            buffer = payload.obj
            if type(buffer) is bytearray and (free := self._free.get(len(buffer))) is not None:
                free.append(buffer)
