"""Connections of clients that are closed because nodes or files need their places.

1. A connection whose descriptor is among the last ones is refused (`network.descriptors`). One to a listener of nodes may have the place of
   the client that was idle for longest, also where max.connections are open (ConnectionQuotas.maxConnectionsExceeded).
2. Where files have come to use what is kept from connections, clients that were idle for longest are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from odradek.network import descriptors

if TYPE_CHECKING:
    from odradek.network.acceptor import Listener
    from odradek.network.connection import Connection
    from odradek.network.limits import QuietLog


class Eviction:
    """Chooses clients of an acceptor that give way to others.

    `connections` are the open ones, which the acceptor keeps. `protected` returns the names of the listeners of nodes, `descriptor_limit`
    how many descriptors the process may have open: the configuration and the operating system may change them.
    """

    def __init__(
        self,
        connections: Collection[Connection],
        protected: Callable[[], Collection[str]],
        quiet_log: QuietLog,
        *,
        backlog: int,
        descriptor_limit: Callable[[], int],
    ) -> None:
        self._connections = connections
        self._protected = protected
        self._quiet_log = quiet_log
        self._backlog = backlog
        self.descriptor_limit = descriptor_limit
        self._ending: set[Connection] = set()
        """Evicted connections that have not ended yet; asked for membership only, as no set is in an order that repeats."""

    @property
    def ending(self) -> int:
        """How many of the open connections have been evicted."""
        return len(self._ending)

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._ending.discard(connection)

    def is_kept(self, descriptor: int, listener: Listener) -> bool:
        """Return whether a descriptor is among the last ones, which connections to this listener may not have."""
        most = self.descriptor_limit()
        if listener.name in self._protected():
            return descriptor >= most - descriptors.kept_from_nodes(most, self._backlog)
        return descriptor >= most - descriptors.kept_from_clients(most, self._backlog)

    def make_way(self, connection: Connection, reason: str = "max.connections are open") -> bool:
        """Close the client that was idle for longest for a connection to a listener of nodes; return whether there was one."""
        if connection.listener.name not in self._protected():
            return False
        longest = min(self._clients(), key=lambda each: each.idle_since, default=None)
        if longest is None:
            return False
        self._quiet_log.warning("closing %s for %s: %s", longest.connection_id, connection.connection_id, reason)
        self._evict(longest)
        return True

    def free_descriptors(self) -> None:
        """Close clients that were idle for longest, where files have come to use what is kept from clients."""
        most = self.descriptor_limit()
        first_kept = most - descriptors.kept_from_nodes(most, self._backlog)
        if not descriptors.is_open(first_kept):
            # The lowest free number is not above this one: nothing is to be freed, as in nearly every sweep.
            return
        wanted = descriptors.lowest_free() - first_kept
        if wanted <= 0:
            return
        idle = sorted((each for each in self._clients() if not each.busy and not each.active), key=lambda each: each.idle_since)
        for each in idle[:wanted]:
            self._evict(each)
        if idle:
            closed = min(wanted, len(idle))
            self._quiet_log.warning(
                "nearly all of the %d file descriptors are open: closing %d clients that were idle for longest", most, closed
            )

    def _clients(self) -> list[Connection]:
        protected = self._protected()
        return [each for each in self._connections if each.listener.name not in protected and each not in self._ending]

    def _evict(self, connection: Connection) -> None:
        self._ending.add(connection)
        connection.abort()
