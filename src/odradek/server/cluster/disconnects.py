"""Immediate fencing of brokers whose process is gone. Kafka has no such mechanism: its controllers fence at the end of the session.

A broker sends its heartbeats over one connection. When that connection ends, the broker has the grace time to send a heartbeat over another
one. Otherwise its process is gone or its host cannot reach the controller, and the active controller fences the broker. A broker that is
slow, paused or partitioned keeps its connection, and its session decides, as in Kafka.

The operating system of an ended process refuses connections. So the controller probes the registered address of a broker when its heartbeat
connection ends. A new active controller probes the address of every broker. When the connection is refused, the broker is fenced without
grace time. The rest of this text is about brokers for which the probe is not conclusive.

A connection may also end between two heartbeats of a healthy broker: JVM brokers notice with the next heartbeat. So a broker is fenced only
after its next heartbeat is overdue by half the grace time. A broker that was fenced too early is unfenced with its next heartbeat.

A controller that did not read its sockets must not judge. Healthy brokers close their connections when they wait too long for a response,
so connections end when the controller has the least time for new ones:

- Grace time counts only while the loop runs. After a stall of the loop no broker is judged for the length of the stall, because brokers
  that could not reach this controller have backed off. A loop that is always busy never judges, and leaves the decision to the session.
- Requests that wait in sockets at the end of the grace time are served first; loops run timers before they read.
- A heartbeat counts from the time when the controller processes it. Its response comes later, after the disk and the quorum. The decision
  to fence is queued among the controller's operations, behind the heartbeats that came before it, and checked again when its turn comes. A
  heartbeat whose connection has ended before it is processed restarts the grace time, and does not undo the end of the connection.
- Heartbeats under one leader of the quorum do not count under the next: brokers leave a deposed controller, which may soon be active again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.deferred import Deferred
from odradek.base.timing import Alarm, Grace

if TYPE_CHECKING:
    from odradek.base.clock import Clock

logger = logging.getLogger(__name__)

_CHECK_S = 0.25
"""Seconds between two looks at the loop while brokers are known."""
_NEXT_S = 0.001
"""Seconds before the next look, at least; timers may fire early by that time."""
_STALL_S = 0.125
"""Seconds; a loop whose timers are later than this has stalled."""

Fence = Callable[[int, int, Callable[[], bool]], Deferred[bool]]
"""(broker id, broker epoch, function that returns whether the broker is back, called among the controller's operations) -> whether this
call fenced the broker.
"""

NobodyListens = Callable[[int], Deferred[bool]]
"""Broker id -> whether the registered address of the broker refuses connections."""


class _Heard(NamedTuple):
    broker_epoch: int
    connection_id: str
    at_s: float


class HeartbeatConnections:
    """Last heartbeat connection of each broker. Times are the clock's monotonic seconds."""

    def __init__(self, clock: Clock, fence: Fence, nobody_listens: NobodyListens, grace_s: float, interval_s: float) -> None:
        """`grace_s`: broker.session.disconnect.timeout.ms; `interval_s`: broker.heartbeat.interval.ms of the brokers."""
        self._clock = clock
        self._fence = fence
        self._nobody_listens = nobody_listens
        self._grace_s = grace_s
        self._overdue_s = interval_s + grace_s / 2
        self._heard: dict[int, _Heard] = {}
        self._open: dict[str, int | None] = {}
        """Open connections that have carried heartbeats -> broker whose last heartbeat came over the connection, None when there is no such
        broker.
        """
        self._missing: dict[int, float] = {}
        """Broker whose connection has ended -> end of its grace time."""
        self._term = object()
        """Identity of the time between two calls of `forget`."""
        self._not_before_s = 0.0
        """Time before which no broker is judged, because of the last stall of the loop."""
        self._alarm = Alarm(clock, self._check_due)
        self._check_at_s = 0.0
        """Time for which the alarm was set last."""
        self._grace = Grace(self._alarm)

    @property
    def connections(self) -> int:
        """Number of open connections that have carried heartbeats."""
        return len(self._open)

    @property
    def known(self) -> frozenset[int]:
        """Brokers that have sent heartbeats since this controller became active."""
        return frozenset(self._heard)

    @property
    def missing(self) -> frozenset[int]:
        """Brokers whose connection has ended and whose grace time is not over."""
        return frozenset(self._missing)

    def arrived(self, connection_id: str) -> None:
        """Note that a heartbeat has arrived; its broker is known only when the heartbeat is processed."""
        self._open.setdefault(connection_id)

    def heard(self, broker_id: int, broker_epoch: int, connection_id: str) -> None:
        """Note that a heartbeat that had `arrived` was accepted."""
        before = self._heard.get(broker_id)
        if before is not None and before.connection_id in self._open:
            self._open[before.connection_id] = None
        self._heard[broker_id] = _Heard(broker_epoch, connection_id, self._clock.monotonic())
        if connection_id in self._open:
            self._open[connection_id] = broker_id
            self._missing.pop(broker_id, None)
        else:
            self._ended(broker_id)
        if not self._alarm.is_set:
            self._check_later()

    def disconnected(self, connection_id: str) -> None:
        """Note that a connection to this controller has ended, whichever side closed it."""
        broker_id = self._open.pop(connection_id, None)
        if broker_id is not None:
            self._ended(broker_id)

    def forget(self) -> None:
        """Forget all heartbeats, and fence no broker because of them."""
        self._alarm.cancel()
        self._heard.clear()
        self._missing.clear()
        self._open = dict.fromkeys(self._open)
        self._term = object()

    def taken_over(self, brokers: Iterable[tuple[int, int]]) -> None:
        """Probe the unfenced brokers (broker id, broker epoch) of a new active controller, few of which have sent heartbeats to it yet."""
        for broker_id, broker_epoch in brokers:
            if broker_id not in self._heard:
                self._probe(broker_id, broker_epoch, None)

    # -- the grace time --------------------------------------------------------------------------------------------------------------

    def _ended(self, broker_id: int) -> None:
        heard = self._heard[broker_id]
        self._missing[broker_id] = max(self._clock.monotonic() + self._grace_s, heard.at_s + self._overdue_s)
        self._probe(broker_id, heard.broker_epoch, heard)

    def _probe(self, broker_id: int, broker_epoch: int, heard: _Heard | None) -> None:
        """Probe the broker's address. If it refuses connections, ask for the broker to be fenced, unless a heartbeat has come since
        `heard`.
        """
        term = self._term

        def looked(refused: Deferred[bool]) -> None:
            if refused.error is None and refused.result() and self._term is term and self._heard.get(broker_id) is heard:
                self._missing.pop(broker_id, None)
                self._judge(broker_id, broker_epoch, heard, "its listener refuses connections")

        self._nobody_listens(broker_id).add_callback(looked)

    def _check_later(self) -> None:
        now_s = self._clock.monotonic()
        first_s = max(min(self._missing.values()), self._not_before_s) if self._missing else now_s + _CHECK_S
        self._check_at_s = min(max(first_s, now_s + _NEXT_S), now_s + _CHECK_S)
        self._alarm.set_at(self._check_at_s)
        self._grace.restart()

    def _check_due(self) -> None:
        """Have the brokers fenced whose grace time is over and stays over during some further loop iterations."""
        now_s = self._clock.monotonic()
        late_s = now_s - self._check_at_s
        if late_s > _STALL_S:
            self._missing = {broker_id: over_s + late_s for broker_id, over_s in self._missing.items()}
            self._not_before_s = now_s + late_s
        gone = [broker_id for broker_id, over_s in self._missing.items() if max(over_s, self._not_before_s) <= now_s]
        if gone and self._grace.waits():
            self._check_at_s = now_s
            return
        judged = [(broker_id, self._heard[broker_id]) for broker_id in gone]
        for broker_id in gone:
            del self._missing[broker_id]
        for broker_id, heard in judged:  # a judgement may call `forget` at once
            self._judge(broker_id, heard.broker_epoch, heard, "the connection of its heartbeats ended, and no other heartbeat came")
        if self._heard and not self._alarm.is_set:
            self._check_later()

    def _judge(self, broker_id: int, broker_epoch: int, heard: _Heard | None, why: str) -> None:
        term = self._term

        def is_back() -> bool:
            return self._term is not term or self._heard.get(broker_id) is not heard

        def done(fenced: Deferred[bool]) -> None:
            # Another node may be the active controller by now: it judges by its own connections.
            if fenced.error is None and fenced.result():
                logger.warning("fenced broker %d: %s", broker_id, why)

        self._fence(broker_id, broker_epoch, is_back).add_callback(done)
