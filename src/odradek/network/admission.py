"""Connections that wait for their turn under max.connection.creation.rate (KIP-612).

1. A connection beyond the rate of its listener or of the broker is not read until its turn.
2. Those behind it on the listener wait in order. Each uses up a part of the rate when its turn comes, not before: a connection that its
   peer has closed by then costs the others nothing. JVM Kafka sleeps in the thread that accepts: such a connection takes its turn there.
   As the loop does not read those that wait, it does not notice that either: the operating system is asked (`_hung_up`).
3. A connection beyond the rate of its address is closed after a while, so that its client does not come back at once.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Final

from odradek.base.addresses import without_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from odradek.base.clock import Clock, TimerHandle
    from odradek.network.connection import Connection
    from odradek.quotas.connections import ConnectionRates

MOST_HELD: Final = 1000
"""Connections that are kept for a while before they are closed; more are closed at once."""


_HANG_UP: Final = getattr(select, "POLLRDHUP", 0)
"""The peer sends no more. Systems that do not have it (macOS) tell only of peers that have reset the connection."""


def _hung_up(descriptors: Iterable[int]) -> set[int]:
    """Return the sockets whose peers have closed the connection, or their half of it."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, _HANG_UP)
    return {descriptor for descriptor, _ in poll.poll(0)}


class _Line:
    """Connections to one listener that wait: `first`, which the rates have counted, and in their order those behind it."""

    __slots__ = ("descriptor", "first", "is_read", "timer", "waiting")

    def __init__(self, first: Connection, descriptor: int, *, is_read: bool, timer: TimerHandle) -> None:
        self.first = first
        self.descriptor = descriptor
        self.is_read = is_read
        """Whether the first connection is read when its turn comes."""
        self.timer = timer
        self.waiting: dict[Connection, int] = {}
        """Connection -> descriptor of its socket, -1 where it has none."""


class Admission:
    """Lines of all listeners of an acceptor.

    `rates` says by scope how many connections a second there may be, None while nothing limits them. `protected` names the listener on
    which the rate of the whole broker does not hold. Both may be set later.
    """

    def __init__(self, clock: Clock, rates: Mapping[str, ConnectionRates] | None = None, protected: str | None = None) -> None:
        self.rates = rates
        self.protected = protected
        self._clock = clock
        self._lines: dict[str, _Line] = {}
        self._held = 0

    def connected(self, connection: Connection, transport: asyncio.Transport, descriptor: int) -> None:
        """Have a new connection wait where it came too soon. `descriptor` is that of its socket, -1 where it has none."""
        line = self._lines.get(connection.listener.name)
        if line is not None:
            line.waiting[connection] = descriptor
        elif self._counted(connection, descriptor, {}):
            return
        connection.delayed = True
        transport.pause_reading()

    def disconnected(self, connection: Connection) -> None:
        """Give the place of a connection that is gone to the next one."""
        name = connection.listener.name
        line = self._lines.get(name)
        if line is None:
            return
        line.waiting.pop(connection, None)
        if line.first is connection:
            line.timer.cancel()
            self._give_back(name, connection)
            self._advance(name)

    def forget_listener(self, name: str) -> None:
        """Forget what connections to a listener have used of the rates."""
        for rates in (self.rates or {}).values():
            rates.forget_listener(name)

    def sweep(self) -> None:
        """Close the connections that wait though their peers are gone."""
        for line in self._lines.values():
            gone = _hung_up(descriptor for descriptor in line.waiting.values() if descriptor >= 0)
            for connection in [each for each, descriptor in line.waiting.items() if descriptor in gone] if gone else ():
                connection.abort()

    def _turn(self, name: str) -> None:
        """Read the first connection of a listener's line, whose time has come, and go on with the line."""
        line = self._lines[name]
        if self._is_gone(line.first, line.descriptor):
            self._give_back(name, line.first)
        elif line.is_read:
            line.first.start_reading()
        self._advance(name)

    def _advance(self, name: str) -> None:
        """Read the connections behind the first one of a listener's line, up to one that has to wait: it becomes the first."""
        waiting = self._lines.pop(name).waiting
        while waiting and name not in self._lines:
            connection = next(iter(waiting))
            descriptor = waiting.pop(connection)
            if not self._is_gone(connection, descriptor) and self._counted(connection, descriptor, waiting):
                connection.start_reading()

    def _is_gone(self, connection: Connection, descriptor: int) -> bool:
        """Return whether the peer of a connection has closed it; it is closed here then."""
        gone = descriptor >= 0 and bool(_hung_up([descriptor]))
        if gone:
            connection.abort()
        return gone

    def _counted(self, connection: Connection, descriptor: int, behind: dict[Connection, int]) -> bool:
        """Have the rates count a connection. Return whether it is read at once.

        Otherwise it waits, with `behind` behind it, or is closed after a while.
        """
        name = connection.listener.name
        wait_ms, is_read = self._admit(connection)
        if wait_ms:
            timer = self._clock.call_later(wait_ms / 1000, self._turn, name)
            line = self._lines[name] = _Line(connection, descriptor, is_read=is_read, timer=timer)
            line.waiting = behind
        return is_read and not wait_ms

    def _give_back(self, name: str, connection: Connection) -> None:
        """Have the rates forget the first connection of a listener's line, which does not take its turn."""
        if self.rates is not None:
            self.rates[connection.listener.scope].give_back(name, self._now_ms(), protected=name == self.protected)

    def _admit(self, connection: Connection) -> tuple[int, bool]:
        """Return the milliseconds that a connection has to wait, and whether it is read then; otherwise it is closed after a while."""
        if self.rates is None:
            return 0, True
        listener = connection.listener.name
        host = without_scope(connection.peer_host)
        rates = self.rates[connection.listener.scope]
        wait_ms, close_after_ms = rates.admit(listener, host, self._now_ms(), protected=listener == self.protected)
        if close_after_ms is None:
            return wait_ms, True
        if self._held >= MOST_HELD:
            connection.abort()
        else:
            self._held += 1
            self._clock.call_later(close_after_ms / 1000, self._end_hold, connection)
        return wait_ms, False

    def _end_hold(self, connection: Connection) -> None:
        self._held -= 1
        connection.abort()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
