"""Fairness between the connections of an acceptor, and the end of a loop iteration, at which short responses leave.

1. The requests of all clients together have `CLIENTS_SHARE_S` of each loop iteration. A connection that finds this time used up is queued,
   and continues first in the next iteration, ahead of requests that have just arrived.
2. One connection has at most `REQUESTS_AT_ONCE` requests, or `CONNECTION_SHARE_S`, of those that one read brings. A connection with more
   is greedy for `GREEDY_S`: it is queued after its share, and each of its reads is queued. All greedy connections share `GREEDY_SHARE_S` of
   each iteration. However many they are, other connections wait for at most one of them.
3. Requests for which `FrameHandler.goes_first` returns True (the quorum, heartbeats of brokers) are not queued, nor are timers: both wait
   for one iteration. A message between nodes takes several iterations of several loops, and nodes wait only a few seconds for a response.
4. Responses that become ready, and short responses, leave at the end of the iteration (in the next phase of the loop's callbacks). To wake
   a sleeping peer costs more than the rest of a short response, so a peer that waits for several responses gets them together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.network.connection import Connection

CLIENTS_SHARE_S: Final = 0.005
"""Seconds of each loop iteration for the requests of all clients together."""
GREEDY_SHARE_S: Final = 0.001
"""Seconds of each loop iteration for connections that had more than their share."""
REQUESTS_AT_ONCE: Final = 16
"""Most requests of one connection in a loop iteration. A read can bring thousands, for which all other connections would wait."""
CONNECTION_SHARE_S: Final = 0.001
"""Seconds after which other connections continue, even before `REQUESTS_AT_ONCE`: a malformed request can take long to refuse."""
GREEDY_S = 0.1
"""Seconds for which a connection queues its reads after it exceeded `REQUESTS_AT_ONCE` or `CONNECTION_SHARE_S`."""


class Fairness:
    """Queues of the connections of one acceptor, and the clients' time in the current loop iteration."""

    __slots__ = ("_clients_until_s", "_clock", "_greedy", "_is_ending", "_is_serving", "_loop", "_waiting", "_writers", "ready")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: deque[Connection] = deque()
        """Connections that found the clients' time used up before they had their share."""
        self._greedy: deque[Connection] = deque()
        """Connections that had more than their share and have further requests."""
        self._clients_until_s = 0.0
        """Monotonic seconds when the clients' time is used up; 0 before the first request of a loop iteration."""
        self._is_ending = False
        """Whether `send_responses` is scheduled for the next phase of callbacks."""
        self._is_serving = False
        """Whether `_serve_queues` is scheduled for the next phase of callbacks, or is running."""
        self.ready: dict[Connection, None] = {}
        """Connections with responses that have become ready, in order: arguments of `send_soon`."""
        self._writers: list[Connection] = []
        """Connections with short responses that have not been written."""

    def is_used_up(self) -> bool:
        """Return whether the clients' time in this loop iteration is used up. The time starts with the first request."""
        now_s = self._clock.monotonic()
        if not self._clients_until_s:
            # Schedule `send_responses` before anything schedules `_serve_queues`: the time must be reset before the queues are served.
            self._end_soon()
            self._clients_until_s = now_s + CLIENTS_SHARE_S
        return now_s > self._clients_until_s

    def enqueue(self, connection: Connection, *, greedy: bool) -> None:
        """Call `Connection.go_on` after the connections that are queued already. `greedy` says that it had more than its share."""
        (self._greedy if greedy else self._waiting).append(connection)
        if not self._is_serving:
            self._is_serving = True
            self._loop.call_soon(self._serve_queues)

    def send_soon(self, connection: Connection) -> None:
        """Schedule `Connection.send_ready` for the end of the loop iteration. Without effect on a connection in `ready`."""
        self.ready[connection] = None
        if not self._is_ending:
            self._end_soon()

    def write_soon(self, connection: Connection) -> None:
        """Schedule `Connection.write_short` for the end of the loop iteration."""
        self._writers.append(connection)
        if not self._is_ending:
            self._end_soon()

    def send_responses(self) -> None:
        """Send what `send_soon` and `write_soon` have scheduled, and reset the clients' time."""
        self._is_ending = False
        self._clients_until_s = 0.0
        ready, self.ready = self.ready, {}
        writers, self._writers = self._writers, []
        for connection in writers:
            connection.write_short()
        for connection in ready:
            connection.send_ready()

    def _end_soon(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._loop.call_soon(self.send_responses)

    def _serve_queues(self) -> None:
        try:
            for _ in range(len(self._waiting)):
                if self.is_used_up():
                    break
                self._waiting.popleft().go_on()
            until_s = self._clock.monotonic() + GREEDY_SHARE_S
            for _ in range(len(self._greedy)):
                self._greedy.popleft().go_on()
                if self._clock.monotonic() > until_s:
                    break
        finally:
            self._is_serving = bool(self._waiting or self._greedy)
            if self._is_serving:
                # The clients' time is reset by `send_responses`.
                self._end_soon()
                self._loop.call_soon(self._serve_queues)
