"""Brokers whose process is gone are fenced at once, not when their session has run out. Ours; Kafka has only the session.

A broker sends its heartbeats over one connection. When that connection ends and the broker has not beaten over another one within the
grace time, its process is gone, or nobody can reach the controller from there: the active controller fences it. What is merely slow, paused
or cut off keeps its connection, and its session decides, as in Kafka.

Where the process has ended, its system refuses connections. So when a heartbeat connection ends, and for every broker that a new active
controller takes over, somebody looks whether anybody listens where the broker has registered. When that is refused, the broker is fenced
without any grace time. All that follows is for brokers of which this cannot be told.

A connection may also end between two heartbeats of a broker that is well: JVM brokers notice with the next one. So nobody is fenced before
the next heartbeat is overdue by half the grace time. A broker that was fenced too early all the same is unfenced with its next heartbeat.

Whoever did not listen may not judge. Brokers that are well end their connections themselves when they wait too long for an answer, so that
connections end just when the controller has the least time for new ones:

- Grace time is time in which the loop runs. When it has stood still, nobody is judged for as long again: those who found nobody listening
  have backed off. A loop that does little else does not judge at all, and leaves that to the session.
- What waits in sockets when the grace time is over is served first; loops run timers before they read.
- A heartbeat counts from when the controller works it off, not from when it is answered, which waits for the disk and the quorum. The
  question whether to fence takes its turn among the controller's operations, behind the heartbeats that came before it, and is asked anew
  then. A heartbeat whose connection has ended meanwhile begins the grace time anew, and does not take back the end.
- What was heard under one leader of the quorum does not count under the next: brokers leave a deposed controller, which may soon be active
  again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.clock import READING_TURNS
from odradek.base.deferred import Deferred

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle

logger = logging.getLogger(__name__)

_LOOK_S = 0.25
"""How often the loop is looked at while brokers are heard of."""
_NEXT_S = 0.001
"""The pause before the next look, at least; timers may come that much too early."""
_STALL_S = 0.125
"""A loop whose timers are later than that has stood still."""

Fence = Callable[[int, int, Callable[[], bool]], Deferred[bool]]
"""(broker id, broker epoch, whether it is back, to be asked among the controller's operations) -> whether the broker was fenced by it."""

NobodyListens = Callable[[int], Deferred[bool]]
"""Broker id -> whether connections are refused where the broker has registered."""


class _Heard(NamedTuple):
    broker_epoch: int
    connection_id: str
    at_s: float


class HeartbeatConnections:
    """Over which connection each broker was heard of last. Times are the clock's monotonic seconds."""

    def __init__(self, clock: Clock, fence: Fence, nobody_listens: NobodyListens, grace_s: float, interval_s: float) -> None:
        """`grace_s`: broker.session.disconnect.timeout.ms; `interval_s`: broker.heartbeat.interval.ms, which brokers keep to."""
        self._clock = clock
        self._fence = fence
        self._nobody_listens = nobody_listens
        self._grace_s = grace_s
        self._overdue_s = interval_s + grace_s / 2
        self._heard: dict[int, _Heard] = {}
        self._open: dict[str, int | None] = {}
        """Connections over which heartbeats have come, and which broker's last came over it, if any's."""
        self._missing: dict[int, float] = {}
        """Brokers whose connection has ended, and when their grace time is over."""
        self._term = object()
        """Stands for the time between two calls of `forget`."""
        self._not_before_s = 0.0
        """When it has been long enough since the loop stood still last."""
        self._timer: TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Open connections over which heartbeats have come."""
        return len(self._open)

    @property
    def known(self) -> frozenset[int]:
        """Brokers that this controller has heard of since it became the active one."""
        return frozenset(self._heard)

    @property
    def missing(self) -> frozenset[int]:
        """Brokers whose connection has ended and whose grace time is not over."""
        return frozenset(self._missing)

    def arrived(self, connection_id: str) -> None:
        """A heartbeat has come in; whose is not known before it is worked off."""
        self._open.setdefault(connection_id)

    def heard(self, broker_id: int, broker_epoch: int, connection_id: str) -> None:
        """A heartbeat that had `arrived` was accepted."""
        before = self._heard.get(broker_id)
        if before is not None and before.connection_id in self._open:
            self._open[before.connection_id] = None
        self._heard[broker_id] = _Heard(broker_epoch, connection_id, self._clock.monotonic())
        if connection_id in self._open:
            self._open[connection_id] = broker_id
            self._missing.pop(broker_id, None)
        else:
            self._ended(broker_id)
        if self._timer is None:
            self._look_later()

    def disconnected(self, connection_id: str) -> None:
        """A connection to this controller has ended, whoever ended it."""
        broker_id = self._open.pop(connection_id, None)
        if broker_id is not None:
            self._ended(broker_id)

    def forget(self) -> None:
        """What was heard so far means nothing any more: fences nobody for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heard.clear()
        self._missing.clear()
        self._open = dict.fromkeys(self._open)
        self._term = object()

    def taken_over(self, brokers: Iterable[tuple[int, int]]) -> None:
        """This controller has become active, with these unfenced brokers (broker id, broker epoch), few of which have beaten here yet."""
        for broker_id, broker_epoch in brokers:
            if broker_id not in self._heard:
                self._look_for(broker_id, broker_epoch, None)

    # -- the grace time --------------------------------------------------------------------------------------------------------------

    def _ended(self, broker_id: int) -> None:
        heard = self._heard[broker_id]
        self._missing[broker_id] = max(self._clock.monotonic() + self._grace_s, heard.at_s + self._overdue_s)
        self._look_for(broker_id, heard.broker_epoch, heard)

    def _look_for(self, broker_id: int, broker_epoch: int, heard: _Heard | None) -> None:
        """Judges the broker at once when nobody listens there, unless it has been heard of again since it was `heard`."""
        term = self._term

        def looked(refused: Deferred[bool]) -> None:
            if refused.error is None and refused.result() and self._term is term and self._heard.get(broker_id) is heard:
                self._missing.pop(broker_id, None)
                self._judge(broker_id, broker_epoch, heard, "nobody listens there any more")

        self._nobody_listens(broker_id).add_callback(looked)

    def _look_later(self) -> None:
        now_s = self._clock.monotonic()
        first_s = max(min(self._missing.values()), self._not_before_s) if self._missing else now_s + _LOOK_S
        due_s = min(max(first_s, now_s + _NEXT_S), now_s + _LOOK_S)
        self._timer = self._clock.call_later(due_s - now_s, self._look, due_s, READING_TURNS)

    def _look(self, due_s: float, turns: int) -> None:
        """Who is gone by now? Asked again after so many turns of the loop before anybody is judged."""
        self._timer = None
        now_s = self._clock.monotonic()
        late_s = now_s - due_s
        if late_s > _STALL_S:
            self._missing = {broker_id: over_s + late_s for broker_id, over_s in self._missing.items()}
            self._not_before_s = now_s + late_s
        gone = [broker_id for broker_id, over_s in self._missing.items() if max(over_s, self._not_before_s) <= now_s]
        if gone and turns:
            self._timer = self._clock.call_later(0, self._look, now_s, turns - 1)
            return
        judged = [(broker_id, self._heard[broker_id]) for broker_id in gone]
        for broker_id in gone:
            del self._missing[broker_id]
        for broker_id, heard in judged:  # which may lead to `forget` at once
            self._judge(broker_id, heard.broker_epoch, heard, "its connection has ended, and it has not come back")
        if self._heard and self._timer is None:
            self._look_later()

    def _judge(self, broker_id: int, broker_epoch: int, heard: _Heard | None, why: str) -> None:
        term = self._term

        def is_back() -> bool:
            return self._term is not term or self._heard.get(broker_id) is not heard

        def done(fenced: Deferred[bool]) -> None:
            # Another node may be the active controller by now: it has connections of its own to judge by.
            if fenced.error is None and fenced.result():
                logger.warning("fenced broker %d: %s", broker_id, why)

        self._fence(broker_id, broker_epoch, is_back).add_callback(done)
