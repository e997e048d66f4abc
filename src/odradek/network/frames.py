"""Receive buffers and the size-prefixed frames in them; no IO.

A frame is four bytes of size (big-endian, signed) and that many bytes. The owner of a `FrameReceiver` runs this cycle:

1. `space()` returns the memory to receive into, at first without `reserve()`. `received(n)` says how much of the memory was filled.
2. `next_frame()` returns a view of the next whole frame, or None. A bad size raises `FrameSizeError` before memory is allocated for it.
   `put_back()` right after that returns the frame to the receiver, to be served later.
3. `frame_done()` once the frame's response exists. After that the bytes may be overwritten, *unless* a view of them is still alive. In that
   case the buffer is left to the holders of the view and a new buffer is taken, so a kept view never changes.
4. `reserve()` before the next `space()`: makes room, or returns False when the memory budget does not allow it. Then stop reading, and try
   again when the budget has room.

Memory is allocated as bytes arrive: a buffer doubles when it is full, never beyond the end of the frame in it. A connection without
received bytes holds no buffer; buffers go back to a pool shared by all connections.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import Struct

from odradek.base.errors import ProtocolError

SIZE = Struct(">i")
BASE_CAPACITY = 256 * 1024
FLOOR_CAPACITY = 4096
SMALL_FRAME = 4096
"""Most bytes of a frame that is copied out, so that a parked request does not hold a whole buffer."""

_EXACT_READ = 64 * 1024
_ROUNDED = 256 * 1024
_SMALLEST_LENT = 1024 * 1024
_LARGEST_POOLED = 4 * 1024 * 1024
_OWN_REFERENCES = 3  # `_Buffer.data`, the memory exported to `_Buffer.view`, and the argument of getrefcount


_SPOKEN = {
    0x150301: "it speaks TLS",
    0x150302: "it speaks TLS",
    0x150303: "it speaks TLS",
    0x160301: "it speaks TLS",
    0x160302: "it speaks TLS",
    0x160303: "it speaks TLS",
    0x485454: "it speaks HTTP",
    0x535348: "it speaks SSH",
}
"""Protocol by the first three bytes of a frame that are not a size: a TLS alert or first message, `HTT` or `SSH`."""


class FrameSizeError(ProtocolError):
    """Error of a size prefix that is negative, zero or above the limit."""


class _Buffer:
    """Reusable memory. `view` is only for receiving; frames get other views, so that `is_shared` can tell whether a frame is alive."""

    __slots__ = ("data", "view")

    def __init__(self, capacity: int) -> None:
        self.data = bytearray(capacity)
        self.view = memoryview(self.data)

    def is_shared(self) -> bool:
        """Return whether a view handed out as a frame is still alive."""
        return sys.getrefcount(self.data) > _OWN_REFERENCES


class BufferPool:
    """Receive buffers of all connections of one owner, under one budget (bytes of buffer capacity that connections use).

    `lent` is the most bytes of given back buffers, each of at least 1 MiB, that are remembered while a view of them is alive. Once no view
    is alive, they are used again. Clients that receive large responses one after the other need them: new memory costs more than
    receiving into it.
    """

    def __init__(self, budget: int, *, base_capacity: int = BASE_CAPACITY, retained: int = 16 * 1024 * 1024, lent: int = 0) -> None:
        self.budget = budget
        self.base_capacity = base_capacity
        self.in_use = 0
        self._retained_limit = retained
        self._retained = 0
        self._spare = 0  # the least retained bytes since the last `release_spare`
        self._free: dict[int, list[_Buffer]] = {}
        self._lent_limit = lent
        self._lent: list[_Buffer] = []  # in the order in which they were given back
        self._waiting: list[Callable[[], object]] = []
        self.overdrawn_by: object | None = None

    def take(self, capacity: int, owner: object | None = None) -> _Buffer | None:
        """Return a buffer of `capacity` bytes, or None when the budget is used up. A remembered buffer may have up to twice the capacity.

        One `owner` at a time may overdraw the budget. Otherwise half-received frames that fill the budget together could block each other
        forever.
        """
        if self.in_use + capacity > self.budget:
            if owner is None:
                return None
            if self.overdrawn_by is None:
                self.overdrawn_by = owner
            elif self.overdrawn_by is not owner:
                return None
        return self._take(capacity)

    def take_floor(self) -> _Buffer:
        """Return a buffer of the smallest size; every connection gets one even when the budget is used up."""
        return self._take(FLOOR_CAPACITY)

    def _take(self, capacity: int) -> _Buffer:
        self.in_use += capacity
        free = self._free.get(capacity)
        if free:
            self._retained -= capacity
            self._spare = min(self._spare, self._retained)
            return free.pop()
        for index, buffer in enumerate(self._lent):
            if capacity <= len(buffer.data) <= 2 * capacity and not buffer.is_shared():
                self.in_use += len(buffer.data) - capacity
                return self._lent.pop(index)
        return _Buffer(capacity)

    def give_back(self, buffer: _Buffer) -> None:
        """End the use of a buffer. Keep it for the next taker unless it is shared, too large, not a power of two, or enough are kept."""
        capacity = len(buffer.data)
        self.in_use -= capacity
        if (
            capacity <= _LARGEST_POOLED
            and capacity & (capacity - 1) == 0
            and self._retained + capacity <= self._retained_limit
            and not buffer.is_shared()
        ):
            self._retained += capacity
            self._free.setdefault(capacity, []).append(buffer)
        elif _SMALLEST_LENT <= capacity <= self._lent_limit:
            self._lend(buffer)
        if self._waiting:
            self._wake()

    def charge(self, size: int) -> None:
        """Count `size` bytes that a connection holds elsewhere as used; a negative size takes them back."""
        self.in_use += size
        if size < 0 and self._waiting:
            self._wake()

    def _lend(self, buffer: _Buffer) -> None:
        self._lent.append(buffer)
        total = sum(len(each.data) for each in self._lent)
        while total > self._lent_limit:
            total -= len(self._lent.pop(0).data)

    def forget_lent(self) -> None:
        """Forget the oldest remembered buffer, as large responses seem to have ended."""
        if self._lent:
            self._lent.pop(0)

    def release_spare(self) -> None:
        """Free the buffers that no connection has needed since the last call."""
        for capacity, free in self._free.items():
            while free and capacity <= self._spare:
                free.pop()
                self._spare -= capacity
                self._retained -= capacity
        self._spare = self._retained

    @property
    def retained(self) -> int:
        """Bytes of buffers that are kept for the next takers."""
        return self._retained

    def settle(self, owner: object) -> None:
        """End the owner's right to overdraw the budget, because the owner holds no partial frame any longer."""
        if self.overdrawn_by is owner:
            self.overdrawn_by = None
            self._wake()

    def wait(self, callback: Callable[[], object]) -> None:
        """Run `callback` once, when memory has been given back. The callback should try again and may wait again."""
        self._waiting.append(callback)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


class FrameReceiver:
    """Receive side of one connection; the module's docstring has the cycle.

    `eager_bytes` is how many bytes of a declared size may be allocated before they have arrived. It is 0 for unknown peers; clients trust
    their broker.
    """

    __slots__ = ("_buffer", "_eager_bytes", "_end", "_filled", "_frame_end", "_hint", "_max_size", "_pool", "_start")

    def __init__(self, pool: BufferPool, max_size: int, *, eager_bytes: int = 0) -> None:
        self._pool = pool
        self._max_size = max_size
        self._eager_bytes = eager_bytes
        self._buffer: _Buffer | None = None
        self._start = 0  # index of the first byte that is not consumed
        self._end = 0  # index behind the last byte received
        self._frame_end = -1  # index behind the frame at _start; -1 while its size is unknown
        self._filled = False  # whether the last read filled its space to the end
        self._hint = pool.base_capacity

    def limit(self, max_size: int, *, eager_bytes: int) -> None:
        """Set the largest frame size, in bytes, and `eager_bytes` for the frames from now on."""
        self._max_size = max_size
        self._eager_bytes = eager_bytes

    def use(self, pool: BufferPool) -> None:
        """Take memory from another pool from now on; memory that is held counts in the new pool."""
        if pool is self._pool:
            return
        if self._buffer is not None:
            self._pool.charge(-len(self._buffer.data))
            pool.charge(len(self._buffer.data))
        self._pool.settle(self)
        self._pool = pool
        self._hint = pool.base_capacity

    @property
    def pending(self) -> int:
        """Bytes received and not yet handed out."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        return len(self._buffer.data) if self._buffer is not None else 0

    @property
    def room(self) -> int:
        """Free bytes behind the received bytes."""
        return self.capacity - self._end

    def shrink(self) -> None:
        """Move pending bytes to a small buffer where that saves memory."""
        buffer = self._buffer
        pending = self._end - self._start
        if buffer is not None and pending < FLOOR_CAPACITY < len(buffer.data):
            new = self._pool.take_floor()
            new.view[:pending] = buffer.view[self._start : self._end]
            self._buffer = new
            self._rebase()
            self._pool.give_back(buffer)

    def space(self) -> memoryview:
        """Return memory to receive into. It is not empty when no bytes are pending or `reserve` has returned True."""
        if self._buffer is None:
            self.reserve()
        buffer = self._buffer
        assert buffer is not None
        frame_end = self._frame_end
        if frame_end - self._end > _EXACT_READ:
            # A large frame is received to its end and no further, so that nothing has to be moved when the next frame begins.
            return buffer.view[self._end : frame_end]
        return buffer.view[self._end :]

    @property
    def filling(self) -> bool:
        """Whether the current frame lacks bytes and the buffer has room, so that the owner can only receive."""
        buffer = self._buffer
        return buffer is not None and self._end < self._frame_end and self._end < len(buffer.data)

    def received(self, size: int) -> None:
        buffer = self._buffer
        self._end += size
        self._filled = self._end == self._frame_end or (buffer is not None and self._end == len(buffer.data))

    def reserve(self) -> bool:
        """Make room for more bytes. Return False when the budget does not allow it."""
        buffer = self._buffer
        if buffer is None:
            pool = self._pool
            if self._filled:
                # After a read that filled its space, the event loop reads again at once and mostly finds no bytes: a small buffer is
                # enough.
                self._buffer = pool.take_floor()
            else:
                self._buffer = pool.take(self._hint) or pool.take(pool.base_capacity) or pool.take_floor()
            return True
        capacity = len(buffer.data)
        total = self._frame_end - self._start if self._frame_end > 0 else SIZE.size
        if self._start + total <= capacity:
            return True
        if total <= capacity and not buffer.is_shared():
            self._move(buffer)
            return True
        if total > capacity and self._end < capacity and not self._eager_bytes:
            return True  # The frame will not fit, but the free room is filled first.
        return self._grow(buffer, total)

    def _grow(self, buffer: _Buffer, total: int) -> bool:
        """Move to another buffer, for a frame of `total` bytes with its size prefix. Return False when the budget does not allow it."""
        wanted = self._hint
        while wanted <= self._end - self._start:
            wanted *= 2
        if total > wanted:
            wanted = min(total, max(wanted, self._eager_bytes))
            if self._eager_bytes:
                # Responses to the same request differ little in size: the next response fits into the same memory.
                wanted += -wanted % _ROUNDED
        new = self._pool.take(wanted, self)
        if new is None:
            return False
        new.view[: self._end - self._start] = buffer.view[self._start : self._end]
        self._buffer = new
        self._rebase()
        self._pool.give_back(buffer)
        return True

    def _move(self, buffer: _Buffer) -> None:
        buffer.view[: self._end - self._start] = buffer.view[self._start : self._end]
        self._rebase()

    def _rebase(self) -> None:
        if self._frame_end > 0:
            self._frame_end -= self._start
        self._end -= self._start
        self._start = 0

    def next_frame(self) -> memoryview | None:
        """Return the bytes of the next whole frame without its size, or None. Raises FrameSizeError for a size that is not allowed."""
        start = self._start
        buffer = self._buffer
        if buffer is None or self._end - start < SIZE.size:
            return None
        end = self._frame_end
        if end < 0:
            size: int = SIZE.unpack_from(buffer.data, start)[0]
            if size <= 0 or size > self._max_size:
                raise FrameSizeError(_SPOKEN.get(size >> 8) or f"a frame of {size} bytes (the limit is {self._max_size})")
            end = self._frame_end = start + SIZE.size + size
        if end > self._end:
            return None
        body = start + SIZE.size
        if end - body <= SMALL_FRAME:
            frame = memoryview(bytes(buffer.view[body:end]))
        else:
            frame = memoryview(buffer.data)[body:end]
        if end - start > self._hint and end - start <= _LARGEST_POOLED:
            # A peer that has sent a frame this large may send another, so its next buffer has that size from the start.
            self._hint = 1 << (end - start - 1).bit_length()
        self._start = end
        self._frame_end = -1
        if self._pool.overdrawn_by is self:
            self._pool.settle(self)
        return frame

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes of the next whole frame, or no bytes when it has not arrived or its size is not allowed."""
        start = self._start
        buffer = self._buffer
        if buffer is None or self._end - start < SIZE.size:
            return b""
        length: int = SIZE.unpack_from(buffer.data, start)[0]
        body = start + SIZE.size
        if not 0 < length <= self._max_size or body + length > self._end:
            return b""
        return bytes(buffer.view[body : body + min(size, length)])

    def put_back(self, frame: memoryview) -> None:
        """Return the frame that `next_frame` has just returned to the receiver; the next call returns it again."""
        self._frame_end = self._start
        self._start -= SIZE.size + len(frame)

    def frame_done(self) -> bool:
        """Report that the frame's response exists. Return whether more bytes are pending; if not, give the buffer back."""
        if self._start != self._end:
            return True
        if self._buffer is not None:
            self.release()
        return False

    def release(self) -> None:
        """Give the buffer back to the pool. Bytes that were received and not handed out are lost."""
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None
            self._start = self._end = 0
            self._frame_end = -1
            self._pool.give_back(buffer)
        if self._pool.overdrawn_by is self:
            self._pool.settle(self)
