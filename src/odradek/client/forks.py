"""State that a forked child has to make again: locks that another thread of the parent may have held, and sockets that both would read.

The rule: an object of the clients that keeps a lock, a connection or a thread beyond one call either works in a forked child, by
`renew_after_fork`, or raises OdradekError there at once (`origin`). A thread of the parent may be in any place when another one forks.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    """An object that a forked child may go on using."""

    def after_fork(self) -> None:
        """Replace locks, and close connections of the parent without a word to the peer. Runs in the child, before anything else does."""
        ...


_renewed: WeakSet[Renewed] = WeakSet()


def renew_after_fork(owner: Renewed) -> None:
    """Call `owner.after_fork` in each child that is forked from now on, as long as `owner` exists."""
    _renewed.add(owner)


def _renew() -> None:
    for each in list(_renewed):
        each.after_fork()


os.register_at_fork(after_in_child=_renew)
