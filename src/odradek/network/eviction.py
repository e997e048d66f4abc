"""Eviction of client connections in favour of connections of nodes, and of files.

1. A connection with one of the highest descriptors is refused (`network.descriptors`). A connection to a listener of nodes may instead
   evict the client that was idle for longest. The same holds when max.connections are open (ConnectionQuotas.maxConnectionsExceeded).
2. When files use the descriptors that are reserved from connections, the clients that were idle for longest are evicted.
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
    """Chooser of the clients that an acceptor evicts.

    `connections` are the open connections, a collection that the acceptor maintains. `protected` returns the names of the listeners of
    nodes. `descriptor_limit` returns how many descriptors the process may have open. Both are functions, because configuration and
    operating system may change the values.
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
        """Evicted connections that have not ended yet. Only membership is asked for, because the iteration order of a set is not
        repeatable.
        """

    @property
    def ending(self) -> int:
        """Number of open connections that have been evicted."""
        return len(self._ending)

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._ending.discard(connection)

    def is_kept(self, descriptor: int, listener: Listener) -> bool:
        """Return whether a descriptor number is reserved from connections to this listener."""
        most = self.descriptor_limit()
        if listener.name in self._protected():
            return descriptor >= most - descriptors.kept_from_nodes(most, self._backlog)
        return descriptor >= most - descriptors.kept_from_clients(most, self._backlog)

    def make_way(self, connection: Connection, reason: str = "max.connections are open") -> bool:
        """Evict the client that was idle for longest, for a connection to a listener of nodes. Return whether a client was evicted."""
        if connection.listener.name not in self._protected():
            return False
        longest = min(self._clients(), key=lambda each: each.idle_since, default=None)
        if longest is None:
            return False
        self._quiet_log.warning("closing %s for %s: %s", longest.connection_id, connection.connection_id, reason)
        self._evict(longest)
        return True

    def free_descriptors(self) -> None:
        """Evict the clients that were idle for longest when files use the descriptors that are reserved from clients."""
        most = self.descriptor_limit()
        first_kept = most - descriptors.kept_from_nodes(most, self._backlog)
        if not descriptors.is_open(first_kept):
            # The lowest free number is at most this one, so no client has to go. Nearly every sweep ends here.
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
                "nearly all of the %d file descriptors are open: closing the %d clients that have been idle for longest", most, closed
            )

    def _clients(self) -> list[Connection]:
        protected = self._protected()
        return [each for each in self._connections if each.listener.name not in protected and each not in self._ending]

    def _evict(self, connection: Connection) -> None:
        self._ending.add(connection)
        connection.abort()
