"""The bytes of answers that peers have not taken yet, under one budget for all connections.

Bytes that the kernel takes at once do not count. The rest stays in memory until the peer reads, and counts here. There are two kinds, each
with half of the budget:

- **Bytes of files** are read piece by piece. A piece is a 32nd of what is left: large while there is room, `SMALLEST_PIECE` when there is
  none. So peers that stop reading never use up the whole half, peers that read make progress, and no connection has to be closed.
- **Bytes made in memory** (a large Metadata answer) cannot come in pieces. While they fill more than half of their share, a new answer
  closes the connections that have taken nothing for `PATIENCE_S`; while they fill more than all of it, it closes those that have taken
  nothing for longest. So nobody waits for a peer that does not read. Up to `EXEMPT` bytes of a connection do not count, so that short
  answers close nobody.
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
    """A connection that may owe bytes."""

    def unsent(self) -> int:
        """Bytes that were handed to the transport and not taken by the kernel."""
        ...


D = TypeVar("D", bound=Debtor)


class _Debt:
    __slots__ = ("since", "size", "unsent")

    def __init__(self, size: int, unsent: int, since: float) -> None:
        self.size = size
        self.unsent = unsent
        self.since = since  # when the peer was last seen to have taken something


class OwedAnswers(Generic[D]):
    """Who owes how many bytes of memory; `close(debtor, size)` is called for those that have to go."""

    def __init__(self, budget: int, clock: Clock, close: Callable[[D, int], object]) -> None:
        self.most = budget // 2
        self.of_files = 0
        self.in_memory = 0
        self._clock = clock
        self._close = close
        self._debts: dict[D, _Debt] = {}
        """Those in memory, in the order of `since`."""

    def piece(self) -> int:
        """How many bytes of a file may be read now, to be sent at once."""
        return max(SMALLEST_PIECE, min(LARGEST_PIECE, (self.most - self.of_files) // _SHARE))

    def owes(self, debtor: D, size: int) -> None:
        """From now on the debtor owes `size` bytes that were made in memory. Others are closed where that is too much for all together."""
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
