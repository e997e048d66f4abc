"""Brokers whose process is gone are fenced at once, not when their session has run out. Ours; Kafka has only the session.

A broker sends its heartbeats over one connection. When that connection ends and the broker has not beaten over another one within the
grace time, its process is gone, or nobody can reach the controller from there: the active controller fences it. What is merely slow, paused
or cut off keeps its connection, and its session decides, as in Kafka.

A connection may also end between two heartbeats of a broker that is well: JVM brokers notice with the next one. So nobody is fenced before
the next heartbeat is overdue by half the grace time. A broker that was fenced too early all the same is unfenced with its next heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.deferred import Deferred

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle

logger = logging.getLogger(__name__)

Fence = Callable[[int, int], Deferred[bool]]
"""(broker id, broker epoch) -> whether the broker was fenced by it."""


class _Heard(NamedTuple):
    broker_epoch: int
    connection_id: str
    at_s: float


class HeartbeatConnections:
    """Over which connection each broker was heard of last."""

    def __init__(self, clock: Clock, fence: Fence, grace_s: float, interval_s: float) -> None:
        """`grace_s`: broker.session.disconnect.timeout.ms; `interval_s`: broker.heartbeat.interval.ms, which brokers keep to."""
        self._clock = clock
        self._fence = fence
        self._grace_s = grace_s
        self._overdue_s = interval_s + grace_s / 2
        self._heard: dict[int, _Heard] = {}
        self._by_connection: dict[str, int] = {}
        self._timers: dict[int, TimerHandle] = {}

    def heard(self, broker_id: int, broker_epoch: int, connection_id: str) -> None:
        """A heartbeat was accepted."""
        before = self._heard.get(broker_id)
        if before is not None and before.connection_id != connection_id:
            self._by_connection.pop(before.connection_id, None)
        self._heard[broker_id] = _Heard(broker_epoch, connection_id, self._clock.monotonic())
        self._by_connection[connection_id] = broker_id
        timer = self._timers.pop(broker_id, None)
        if timer is not None:
            timer.cancel()

    def disconnected(self, connection_id: str) -> None:
        """A connection to this controller has ended, whoever ended it."""
        broker_id = self._by_connection.pop(connection_id, None)
        if broker_id is not None:
            overdue_in_s = self._heard[broker_id].at_s + self._overdue_s - self._clock.monotonic()
            self._timers[broker_id] = self._clock.call_later(max(self._grace_s, overdue_in_s), self._gone, broker_id)

    def close(self) -> None:
        """Fences nobody any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._heard.clear()
        self._by_connection.clear()

    def _gone(self, broker_id: int) -> None:
        del self._timers[broker_id]
        heard = self._heard.pop(broker_id)

        def done(fenced: Deferred[bool]) -> None:
            # Another node may be the active controller by now: it has connections of its own to judge by.
            if fenced.error is None and fenced.result():
                logger.warning("fenced broker %d: its connection has ended, and it has not come back", broker_id)

        self._fence(broker_id, heard.broker_epoch).add_callback(done)
