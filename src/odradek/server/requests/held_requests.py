"""Requests that are not decoded while responses to other requests of their API wait.

Such a response waits for work that the loop cannot speed up (an executor call that reads the disk), and its decoded request waits, too. A
decoded request takes up to 30 times its bytes.

1. While responses of an API wait, their requests have at most `most` bytes. A single request may have more.
2. A further request to this API stays in the receive buffer of its connection, where queued.max.request.bytes bounds it. Its client sees a
   slower response, as with JVM Kafka, where the request waits for a thread (num.io.threads).
3. When a response is complete, the waiting connections continue in the order in which their requests came, within the bound.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from odradek.base.clock import Clock

_LEAST_COUNTED: Final = 1024
"""Bytes that each request counts at least, because a small request consists of objects as well."""
_FEW: Final = 64
_ITERATION_S: Final = 0.001


class _Connection(Protocol):
    @property
    def closed(self) -> bool: ...

    def go_on(self) -> None: ...


class WaitingRequests:
    """Requests to one API."""

    __slots__ = ("called", "decoded", "held", "next_look")

    def __init__(self) -> None:
        self.decoded = 0
        """Bytes of the decoded requests whose responses wait."""
        self.held: deque[tuple[_Connection, int]] = deque()
        """Connections whose requests are not decoded, with the bytes of the request."""
        self.next_look = _FEW
        """Length of `held` at which closed connections are removed from it."""
        self.called = False


class HeldRequests:
    """Waiting requests, by API."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self.waiting: dict[int, WaitingRequests] = {}
        """API key -> its requests. Usually empty: then callers can skip `hold`."""

    def begin(self, api_key: int, size: int) -> None:
        """Count a decoded request of `size` bytes on the wire whose response waits from now on."""
        self.waiting.setdefault(api_key, WaitingRequests()).decoded += max(size, _LEAST_COUNTED)

    def end(self, api_key: int, size: int) -> None:
        """Forget a request that `begin` has counted."""
        self.waiting[api_key].decoded -= max(size, _LEAST_COUNTED)
        self._call(api_key)

    def hold(self, connection: _Connection, api_key: int, size: int) -> bool:
        """Return whether a request must stay in the receive buffer of its connection. If so, `Connection.go_on` is called when the bound
        allows the request.
        """
        waiting = self.waiting.get(api_key)
        if waiting is None or self._has_room(waiting, size):
            return False
        if len(waiting.held) >= waiting.next_look:
            waiting.held = deque(each for each in waiting.held if not each[0].closed)
            waiting.next_look = max(_FEW, 2 * len(waiting.held))
        waiting.held.append((connection, size))
        return True

    def _has_room(self, waiting: WaitingRequests, size: int) -> bool:
        return not waiting.decoded or waiting.decoded + max(size, _LEAST_COUNTED) <= self._most

    def _call(self, api_key: int) -> None:
        """Schedule a loop iteration for the requests that the bound now allows."""
        waiting = self.waiting[api_key]
        if waiting.held:
            if not waiting.called and self._has_room(waiting, waiting.held[0][1]):
                waiting.called = True
                self._clock.call_later(0, self._call_waiting, api_key)
        elif not waiting.decoded and not waiting.called:
            del self.waiting[api_key]

    def _call_waiting(self, api_key: int) -> None:
        waiting = self.waiting[api_key]
        until = self._clock.monotonic() + _ITERATION_S
        while waiting.held and self._has_room(waiting, waiting.held[0][1]):
            connection, _ = waiting.held.popleft()
            if not connection.closed:
                connection.go_on()
                if self._clock.monotonic() > until:
                    break
        waiting.called = False
        self._call(api_key)
