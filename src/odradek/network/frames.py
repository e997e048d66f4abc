"""Cutting size-prefixed frames out of one receive buffer; no IO.

A frame is four bytes of size (big-endian, signed) and that many bytes. The owner of a `FrameReceiver` runs this cycle:

1. `space()` gives the memory to receive into, the first piece without asking; `received(n)` says how much of it was filled.
2. `next_frame()` gives a view of the next whole frame, or None. A bad size raises `FrameSizeError` before anything is allocated for it.
   `put_back()` right after that, for a frame whose time has not come.
3. `frame_done()` once the frame's answer exists. Then the bytes may be overwritten, *unless* somebody still holds a view of them: in
   that case the buffer is left to its holders and a new one is taken, so a kept view never changes.
4. `reserve()` before the next `space()`: makes room, and says False when the memory budget does not allow it (then stop reading, and
   try again when the budget has room).

Memory is allocated as bytes arrive: a buffer doubles when it is full, never beyond the end of the frame in it. A connection with nothing
received holds no buffer; buffers go back to a pool shared by all connections.
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
"""Frames up to this many bytes are copied out, so that a parked request does not hold a whole buffer."""

_EXACT_READ = 64 * 1024
_ROUNDED = 256 * 1024
_SMALLEST_LENT = 1024 * 1024
_LARGEST_POOLED = 4 * 1024 * 1024
_OWN_REFERENCES = 3  # `_Buffer.data`, the memory exported to `_Buffer.view`, the argument of getrefcount.


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
"""What the first three bytes of a frame say when they are no size: an alert or a first message of TLS, `HTT`, `SSH`."""


class FrameSizeError(ProtocolError):
    """A size prefix that is negative, zero or above the limit."""


class _Buffer:
    """Reusable memory. `view` is only for receiving; frames get views of their own, so that `is_shared` can tell whether one is alive."""

    __slots__ = ("data", "view")

    def __init__(self, capacity: int) -> None:
        self.data = bytearray(capacity)
        self.view = memoryview(self.data)

    def is_shared(self) -> bool:
        """Whether a view handed out as a frame is still alive somewhere."""
        return sys.getrefcount(self.data) > _OWN_REFERENCES


class BufferPool:
    """Receive buffers of all connections of one owner, under one budget (bytes of capacity in use by connections).

    `lent`: bytes of buffers from 1 MiB on that are remembered although somebody still reads what is in them, and are used again once nobody
    does: for a client that gets large answers one after the other, since new memory costs more than receiving into it.
    """

    def __init__(self, budget: int, *, base_capacity: int = BASE_CAPACITY, retained: int = 16 * 1024 * 1024, lent: int = 0) -> None:
        self.budget = budget
        self.base_capacity = base_capacity
        self.in_use = 0
        self._retained_limit = retained
        self._retained = 0
        self._spare = 0  # the least that was retained since `release_spare`
        self._free: dict[int, list[_Buffer]] = {}
        self._lent_limit = lent
        self._lent: list[_Buffer] = []  # the one that was given back first is the first
        self._waiting: list[Callable[[], object]] = []
        self.overdrawn_by: object | None = None

    def take(self, capacity: int, owner: object | None = None) -> _Buffer | None:
        """A buffer of `capacity` bytes, or None when the budget is used up.

        One `owner` at a time may overdraw the budget, so that half-received frames that fill it together cannot block each other for ever.
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
        """A buffer of the smallest size, which every connection gets even when the budget is used up."""
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
        """Ends the use of a buffer. It is kept for the next taker unless it is shared, too large, of an odd size, or enough are kept."""
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
        """Counts `size` bytes that a connection holds elsewhere as in use; a negative size takes them back."""
        self.in_use += size
        if size < 0 and self._waiting:
            self._wake()

    def _lend(self, buffer: _Buffer) -> None:
        self._lent.append(buffer)
        total = sum(len(each.data) for each in self._lent)
        while total > self._lent_limit:
            total -= len(self._lent.pop(0).data)

    def forget_lent(self) -> None:
        """Remembers one buffer less of those that others may still read, as large answers seem to have ended."""
        if self._lent:
            self._lent.pop(0)

    def release_spare(self) -> None:
        """Frees the buffers that nobody has needed since the last call."""
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
        """The owner holds no partial frame any more: the right to overdraw passes on."""
        if self.overdrawn_by is owner:
            self.overdrawn_by = None
            self._wake()

    def wait(self, callback: Callable[[], object]) -> None:
        """Runs `callback` once, when memory has been given back; it should try again and may wait again."""
        self._waiting.append(callback)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


class FrameReceiver:
    """The receive side of one connection; see the module's text for the cycle.

    `eager_bytes`: how much of a declared size may be allocated before its bytes have arrived. 0 for strangers; clients trust their broker.
    """

    __slots__ = ("_buffer", "_eager_bytes", "_end", "_filled", "_frame_end", "_hint", "_max_size", "_pool", "_start")

    def __init__(self, pool: BufferPool, max_size: int, *, eager_bytes: int = 0) -> None:
        self._pool = pool
        self._max_size = max_size
        self._eager_bytes = eager_bytes
        self._buffer: _Buffer | None = None
        self._start = 0  # first byte not consumed
        self._end = 0  # first byte not received
        self._frame_end = -1  # end of the frame at _start, -1 while its size is unknown
        self._filled = False  # the last space was filled to its end
        self._hint = pool.base_capacity

    def limit(self, max_size: int, *, eager_bytes: int) -> None:
        """From now on frames of up to `max_size` bytes are taken."""
        self._max_size = max_size
        self._eager_bytes = eager_bytes

    def use(self, pool: BufferPool) -> None:
        """Take memory from another pool from now on; what is held counts there."""
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
        """Free bytes behind what has been received."""
        return self.capacity - self._end

    def shrink(self) -> None:
        """Moves what is pending to a small buffer, where that saves memory."""
        buffer = self._buffer
        pending = self._end - self._start
        if buffer is not None and pending < FLOOR_CAPACITY < len(buffer.data):
            new = self._pool.take_floor()
            new.view[:pending] = buffer.view[self._start : self._end]
            self._buffer = new
            self._rebase()
            self._pool.give_back(buffer)

    def space(self) -> memoryview:
        """Memory to receive into, never empty where nothing is pending or `reserve` has said True."""
        if self._buffer is None:
            self.reserve()
        buffer = self._buffer
        assert buffer is not None
        frame_end = self._frame_end
        if frame_end - self._end > _EXACT_READ:
            # A large frame is received to its end and no further: nothing has to be moved when the next one begins.
            return buffer.view[self._end : frame_end]
        return buffer.view[self._end :]

    @property
    def filling(self) -> bool:
        """Whether the frame under way lacks bytes and there is room for more: nothing to do but to receive."""
        buffer = self._buffer
        return buffer is not None and self._end < self._frame_end and self._end < len(buffer.data)

    def received(self, size: int) -> None:
        buffer = self._buffer
        self._end += size
        self._filled = self._end == self._frame_end or (buffer is not None and self._end == len(buffer.data))

    def reserve(self) -> bool:
        """Makes room for more bytes; False when the budget does not allow it."""
        buffer = self._buffer
        if buffer is None:
            pool = self._pool
            if self._filled:
                # After a read that filled its space the event loop reads again at once and mostly finds nothing: a small buffer will do.
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
        """Moves to another buffer, for a frame of `total` bytes, size prefix included; False when the budget does not allow it."""
        wanted = self._hint
        while wanted <= self._end - self._start:
            wanted *= 2
        if total > wanted:
            wanted = min(total, max(wanted, self._eager_bytes))
            if self._eager_bytes:
                # Answers to the same request differ by little: the next one fits into the same memory.
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
        """The bytes of the next whole frame without its size, or None; FrameSizeError on a size that is not allowed."""
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
            # A peer that has sent a frame this large may send another: its next buffer has that size from the start.
            self._hint = 1 << (end - start - 1).bit_length()
        self._start = end
        self._frame_end = -1
        if self._pool.overdrawn_by is self:
            self._pool.settle(self)
        return frame

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes of the next whole frame; none where it has not come, or its size is not allowed."""
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
        """`next_frame` gives the frame that it has just given once more, the next time that it is called."""
        self._frame_end = self._start
        self._start -= SIZE.size + len(frame)

    def frame_done(self) -> bool:
        """The frame's answer exists. Gives the buffer back unless more has been received; whether it has."""
        if self._start != self._end:
            return True
        if self._buffer is not None:
            self.release()
        return False

    def release(self) -> None:
        """Gives the buffer back to the pool; what was received and not handed out is lost."""
        buffer = self._buffer
        if buffer is not None:
            self._buffer = None
            self._start = self._end = 0
            self._frame_end = -1
            self._pool.give_back(buffer)
        if self._pool.overdrawn_by is self:
            self._pool.settle(self)
