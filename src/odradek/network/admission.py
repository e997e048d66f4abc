"""Queues of new connections under max.connection.creation.rate (KIP-612).

1. A connection beyond the rate of its listener or of the broker is not read until its delay is over.
2. Later connections of the listener wait in order behind that connection. Each counts against the rate when its delay begins, not earlier.
   So a connection that its peer has closed by then costs other connections nothing. JVM Kafka sleeps in the acceptor thread, so there such
   a connection still counts. The event loop does not read waiting connections and so does not see that a peer closed. `_hung_up` asks the
   operating system.
3. A connection beyond the rate of its address is closed after a delay, so that its client does not reconnect at once.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Final

from odradek.base.addresses import without_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from odradek.base.clock import Clock, TimerHandle
    from odradek.network.connection import Connection
    from odradek.quotas.connections import ConnectionRates

MOST_CLOSING: Final = 1000
"""Most connections that wait to be closed after a delay; further connections are closed at once."""


_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)
"""Poll flag for a peer that sends no more data. Systems without the flag (macOS) report only connections that the peer has reset."""


def _hung_up(descriptors: Iterable[int]) -> set[int]:
    """Return the sockets whose peers have closed the connection, or their sending side of the connection."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, _HANG_UP)
    return {descriptor for descriptor, _ in poll.poll(0)}


class _Queue:
    """Queue of one listener: `first` is counted in the rates; the connections behind it wait in order."""

    __slots__ = ("descriptor", "first", "is_read", "timer", "waiting")

    def __init__(self, first: Connection, descriptor: int, *, is_read: bool, timer: TimerHandle) -> None:
        self.first = first
        self.descriptor = descriptor
        self.is_read = is_read
        """Whether to read the first connection when its delay is over."""
        self.timer = timer
        self.waiting: dict[Connection, int] = {}
        """File descriptor of the socket by connection; -1 without a socket."""


class Admission:
    """Queues of all listeners of an acceptor.

    `rates` holds the connection rates by listener scope, or None while nothing limits connections. `protected` names the listener to which
    the rate of the whole broker does not apply. The owner may set both later.
    """

    def __init__(self, clock: Clock, rates: Mapping[str, ConnectionRates] | None = None, protected: str | None = None) -> None:
        self.rates = rates
        self.protected = protected
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._closing = 0

    def connected(self, connection: Connection, descriptor: int) -> None:
        """Queue a new connection that exceeds a rate. `descriptor` is the file descriptor of its socket, or -1 without a socket."""
        queue = self._queues.get(connection.listener.name)
        if queue is not None:
            queue.waiting[connection] = descriptor
        elif self._counted(connection, descriptor, {}):
            return
        connection.delay()

    def disconnected(self, connection: Connection) -> None:
        """Remove a closed connection from its queue. When it was the first, give its share of the rates back and advance the queue."""
        name = connection.listener.name
        queue = self._queues.get(name)
        if queue is None:
            return
        queue.waiting.pop(connection, None)
        if queue.first is connection:
            queue.timer.cancel()
            self._give_back(name, connection)
            self._advance(name)

    def forget_listener(self, name: str) -> None:
        """Forget the connections to a listener that the rates have counted."""
        for rates in (self.rates or {}).values():
            rates.forget_listener(name)

    def sweep(self) -> None:
        """Close waiting connections whose peers are gone. The first of each queue is checked when its delay ends."""
        for queue in self._queues.values():
            gone = _hung_up(descriptor for descriptor in queue.waiting.values() if descriptor >= 0)
            for connection in [each for each, descriptor in queue.waiting.items() if descriptor in gone] if gone else ():
                connection.abort()

    def _end_delay(self, name: str) -> None:
        """End the delay of the first connection of a listener's queue, and advance the queue."""
        queue = self._queues[name]
        if self._is_gone(queue.first, queue.descriptor):
            self._give_back(name, queue.first)
        elif queue.is_read:
            queue.first.start_reading()
        self._advance(name)

    def _advance(self, name: str) -> None:
        """Start reading the connections behind the first one, in order, up to a connection that has to wait. That connection becomes the
        first.
        """
        waiting = self._queues.pop(name).waiting
        while waiting and name not in self._queues:
            connection = next(iter(waiting))
            descriptor = waiting.pop(connection)
            if not self._is_gone(connection, descriptor) and self._counted(connection, descriptor, waiting):
                connection.start_reading()

    def _is_gone(self, connection: Connection, descriptor: int) -> bool:
        """Return whether the peer has closed a connection; if so, close the connection here too."""
        gone = descriptor >= 0 and bool(_hung_up([descriptor]))
        if gone:
            connection.abort()
        return gone

    def _counted(self, connection: Connection, descriptor: int, behind: dict[Connection, int]) -> bool:
        """Count a connection in the rates, and return whether to read it at once.

        Otherwise queue it, with `behind` behind it; a connection beyond the rate of its address is closed after its delay.
        """
        name = connection.listener.name
        wait_ms, is_read = self._admit(connection)
        if wait_ms:
            timer = self._clock.call_later(wait_ms / 1000, self._end_delay, name)
            queue = self._queues[name] = _Queue(connection, descriptor, is_read=is_read, timer=timer)
            queue.waiting = behind
        return is_read and not wait_ms

    def _give_back(self, name: str, connection: Connection) -> None:
        """Take back what the rates counted for the first connection of a listener's queue, which ended before it was read."""
        if self.rates is not None:
            self.rates[connection.listener.scope].give_back(name, self._now_ms(), protected=name == self.protected)

    def _admit(self, connection: Connection) -> tuple[int, bool]:
        """Return the delay of a connection in milliseconds, and whether to read the connection after that; if not, schedule its end."""
        if self.rates is None:
            return 0, True
        listener = connection.listener.name
        host = without_scope(connection.peer_host)
        rates = self.rates[connection.listener.scope]
        wait_ms, close_after_ms = rates.admit(listener, host, self._now_ms(), protected=listener == self.protected)
        if close_after_ms is None:
            return wait_ms, True
        if self._closing >= MOST_CLOSING:
            connection.abort()
        else:
            self._closing += 1
            self._clock.call_later(close_after_ms / 1000, self._close, connection)
        return wait_ms, False

    def _close(self, connection: Connection) -> None:
        self._closing -= 1
        connection.abort()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
