"""Budget, over all connections, for the bytes of responses that peers have not received yet.

Bytes that the kernel takes at once do not count. The rest stays in memory until the peer reads, and counts here. There are two kinds, each
with half of the budget:

- **Bytes of files** are read in chunks. The chunk size is a 32nd of the free budget, between `SMALLEST_PIECE` and `LARGEST_PIECE`. So peers
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

LARGEST_PIECE = 1024 * 1024
SMALLEST_PIECE = 4 * 1024
EXEMPT = 8 * 1024
PATIENCE_S = 3.0
_SHARE = 32


class Debtor(Protocol):
    """Connection that may have unsent bytes."""

    def unsent(self) -> int:
        """Return the bytes that were written to the transport and that the kernel has not taken."""
        ...


D = TypeVar("D", bound=Debtor)


class _Debt:
    __slots__ = ("since", "size", "unsent")

    def __init__(self, size: int, unsent: int, since: float) -> None:
        self.size = size
        self.unsent = unsent
        self.since = since  # monotonic seconds when the peer was last seen to receive bytes


class OwedAnswers(Generic[D]):
    """Unsent response bytes by connection. `close(debtor, size)` is called for each connection that has to be closed."""

    def __init__(self, budget: int, clock: Clock, close: Callable[[D, int], object]) -> None:
        self.most = budget // 2
        self.of_files = 0
        self.in_memory = 0
        self._clock = clock
        self._close = close
        self._debts: dict[D, _Debt] = {}
        """Debts of bytes made in memory, in the order of `since`."""

    def piece(self) -> int:
        """Return how many bytes of a file may be read now, to be sent at once."""
        return max(SMALLEST_PIECE, min(LARGEST_PIECE, (self.most - self.of_files) // _SHARE))

    def owes(self, debtor: D, size: int) -> None:
        """Set the debtor's unsent bytes that were made in memory to `size`. Close other debtors when the total is too large."""
        debt = self._debts.pop(debtor, None)
        if debt is not None:
            self.in_memory -= debt.size
        if size <= EXEMPT:
            return
        now = self._clock.monotonic()
        self._debts[debtor] = _Debt(size, debtor.unsent(), now)
        self.in_memory += size
        if debt is None or size > debt.size:
            self._make_room(debtor, now)

    def _make_room(self, newest: D, now: float) -> None:
        while self.in_memory > self.most // 2:
            debtor, debt = next(iter(self._debts.items()))
            if debtor is newest:
                return
            unsent = debtor.unsent()
            if unsent < debt.unsent:
                debt.unsent = unsent
                debt.since = now
                self._debts[debtor] = self._debts.pop(debtor)
                self._debts[newest] = self._debts.pop(newest)
            elif now - debt.since >= PATIENCE_S or self.in_memory > self.most:
                del self._debts[debtor]
                self.in_memory -= debt.size
                self._close(debtor, debt.size)
            else:
                return
