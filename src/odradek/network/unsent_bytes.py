"""Budget, over all connections, for the bytes of responses that peers have not received yet.

Bytes that the kernel takes at once do not count. The rest stays in memory until the peer reads, and counts here. There are two kinds, each
with half of the budget:

- **Bytes of files** are read in chunks. The chunk size is a 32nd of the free budget, between `SMALLEST_CHUNK` and `LARGEST_CHUNK`. So peers
  that stop reading never use up the whole half, peers that read make progress, and no connection has to be closed.
- **Bytes made in memory** (a large Metadata response) cannot be split. While they fill more than half of their share, a new response closes
  the connections that have received nothing for `PATIENCE_S` seconds. While they fill more than their whole share, a new response closes
  the connections that have received nothing for longest. So no connection waits for a peer that does not read. Up to `EXEMPT` bytes of a
  connection do not count, so that short responses close no connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from odradek.base.clock import Clock

LARGEST_CHUNK = 1024 * 1024
SMALLEST_CHUNK = 4 * 1024
EXEMPT = 8 * 1024
PATIENCE_S = 3.0
_SHARE = 32


class Sender(Protocol):
    """Connection that may have unsent bytes."""

    def unsent(self) -> int:
        """Return the bytes that were written to the transport and that the kernel has not taken."""
        ...


S = TypeVar("S", bound=Sender)


class _Entry:
    __slots__ = ("since_s", "size", "unsent")

    def __init__(self, size: int, unsent: int, since_s: float) -> None:
        self.size = size
        self.unsent = unsent
        self.since_s = since_s
        """Monotonic seconds when the peer was last seen to receive bytes."""


class UnsentBytes(Generic[S]):
    """Unsent response bytes by connection. `close(sender, size)` is called for each connection that has to be closed."""

    def __init__(self, budget: int, clock: Clock, close: Callable[[S, int], object]) -> None:
        self.most = budget // 2
        """Bytes that each of the two kinds may have."""
        self.of_files = 0
        self.in_memory = 0
        self._clock = clock
        self._close = close
        self._entries: dict[S, _Entry] = {}
        """Senders with bytes made in memory, in the order of `since_s`."""

    def chunk_size(self) -> int:
        """Return how many bytes of a file may be read now, to be sent at once."""
        return max(SMALLEST_CHUNK, min(LARGEST_CHUNK, (self.most - self.of_files) // _SHARE))

    def report(self, sender: S, size: int) -> None:
        """Set the sender's unsent bytes that were made in memory to `size`. Close other senders when the total is too large."""
        entry = self._entries.pop(sender, None)
        if entry is not None:
            self.in_memory -= entry.size
        if size <= EXEMPT:
            return
        now_s = self._clock.monotonic()
        self._entries[sender] = _Entry(size, sender.unsent(), now_s)
        self.in_memory += size
        if entry is None or size > entry.size:
            self._make_room(sender, now_s)

    def _make_room(self, newest: S, now_s: float) -> None:
        while self.in_memory > self.most // 2:
            sender, entry = next(iter(self._entries.items()))
            if sender is newest:
                return
            unsent = sender.unsent()
            if unsent < entry.unsent:
                entry.unsent = unsent
                entry.since_s = now_s
                self._entries[sender] = self._entries.pop(sender)
                self._entries[newest] = self._entries.pop(newest)
            elif now_s - entry.since_s >= PATIENCE_S or self.in_memory > self.most:
                del self._entries[sender]
                self.in_memory -= entry.size
                self._close(sender, entry.size)
            else:
                return
