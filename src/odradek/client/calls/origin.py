"""Process and event loop in which a client was made: the client can be used in no other.

The rule for all clients: every public method that would wait, send or change something first calls `check_process` (a blocking client) or
`check` (an asyncio client). So a call from a forked child or from another event loop raises OdradekError at once. Otherwise the call would
wait for a thread or loop that does not run. `Cluster.origin` is the client's origin; `LoopThread.run` checks for the blocking clients.
Where a check per record would cost too much, the state is emptied in the child instead (`at_fork`). The child takes no lock that another
thread may have held during the fork. (`forks` has the objects that a child may go on using.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.base.errors import OdradekError
from odradek.client.calls.forks import renew_after_fork


class Origin:
    """Process and event loop of one client. Made in that loop; without a running loop `loop` is None."""

    __slots__ = ("__weakref__", "_forgetting", "is_forked", "loop")

    def __init__(self) -> None:
        self.loop = asyncio._get_running_loop()
        self.is_forked = False
        """True in a forked child of the process that made the client."""
        self._forgetting: list[Callable[[], object]] = []
        renew_after_fork(self)

    def at_fork(self, forget: Callable[[], object]) -> None:
        """Call `forget()` in a forked child, before anything else runs there. `forget` must take no locks and raise nothing."""
        self._forgetting.append(forget)

    def check_process(self) -> None:
        """Raise OdradekError in a forked child."""
        if self.is_forked:
            raise OdradekError("this client was created before a fork: create clients in the process that uses them")

    def check_wait(self) -> None:
        """Raise OdradekError where a thread would wait in vain: in a forked child, and in the event loop itself."""
        self.check_process()
        if self.loop is not None and asyncio._get_running_loop() is self.loop:
            raise OdradekError("this call would wait for the event loop that it runs in: use await, or pass the work to another thread")

    def check(self) -> None:
        """Raise OdradekError in a forked child, and outside of the client's event loop."""
        if self.is_forked or asyncio._get_running_loop() is not self.loop:
            self.check_process()
            raise OdradekError("this client was created in another event loop: create asyncio clients in the loop that uses them")

    def after_fork(self) -> None:
        """Note that this process is a forked child."""
        self.is_forked = True
        for forget in self._forgetting:
            forget()
