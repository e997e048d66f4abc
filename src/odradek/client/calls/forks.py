"""State that a forked child has to replace: locks that another thread of the parent may have held, and sockets that both would read.

The rule concerns client objects that keep a lock, a connection or a thread beyond one call. Such an object either works in a forked child,
by `renew_after_fork`, or raises OdradekError there at once (`origin`). At the moment of the fork, other threads of the parent may be
anywhere.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewed(Protocol):
    """Object that a forked child may go on using."""

    def after_fork(self) -> None:
        """Replace locks, and close the parent's connections without sending anything. Runs in the child, before anything else there."""
        ...


_renewed: WeakSet[Renewed] = WeakSet()


def renew_after_fork(owner: Renewed) -> None:
    """Call `owner.after_fork` in each child that is forked from now on, as long as `owner` exists."""
    _renewed.add(owner)


def _renew() -> None:
    for each in list(_renewed):
        each.after_fork()


os.register_at_fork(after_in_child=_renew)
