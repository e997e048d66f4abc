"""Heartbeat connections that end and come back in any order, under one controller after the other: who is fenced, and when."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.base.deferred import Deferred
from tests.server.disconnect_support import DisconnectsWorld

GRACE_S = 1.0
OVERDUE_S = 2.5
"""The interval of heartbeats and half the grace time."""
LOOK_S = 0.26
"""The loop looks that often, and a moment later."""
BROKERS = st.sampled_from((1, 2))


class Connections(RuleBasedStateMachine):
    """Each broker's last connection counts, from its last heartbeat on, as long as the same controller leads."""

    def __init__(self) -> None:
        super().__init__()
        self.world = DisconnectsWorld()
        self.names = (f"c{number}" for number in count())
        self.current: dict[int, tuple[str, float]] = {}
        """Broker -> its last connection, and when it was heard of last."""
        self.open: dict[int, list[str]] = {1: [], 2: []}
        self.due: dict[int, float] = {}
        """Broker -> when its grace time is over."""
        self.expected: list[tuple[int, int]] = []

    @property
    def now_s(self) -> float:
        return self.world.clock.now_s

    def heard(self, broker: int, connection: str) -> None:
        self.world.beat(broker, broker, connection)
        self.current[broker] = connection, self.now_s
        self.due.pop(broker, None)

    @rule(broker=BROKERS)
    def beats_over_a_new_connection(self, broker: int) -> None:
        self.open[broker].append(next(self.names))
        self.heard(broker, self.open[broker][-1])

    @rule(broker=BROKERS, data=st.data())
    def beats_again(self, broker: int, data: st.DataObject) -> None:
        if self.open[broker]:
            self.heard(broker, data.draw(st.sampled_from(self.open[broker])))

    @rule(broker=BROKERS)
    def beats_and_is_gone_before_the_beat_is_worked_off(self, broker: int) -> None:
        name = next(self.names)
        self.world.connections.arrived(name)
        self.world.connections.disconnected(name)
        self.world.connections.heard(broker, broker, name)
        self.current[broker] = name, self.now_s
        self.due[broker] = self.now_s + OVERDUE_S

    @rule(broker=BROKERS, data=st.data())
    def connection_ends(self, broker: int, data: st.DataObject) -> None:
        if not self.open[broker]:
            return
        name = self.open[broker].pop(data.draw(st.integers(0, len(self.open[broker]) - 1)))
        self.world.connections.disconnected(name)
        last, at_s = self.current.get(broker, ("", 0.0))
        if name == last:
            self.due[broker] = max(self.now_s + GRACE_S, at_s + OVERDUE_S)

    @rule()
    def another_controller_leads(self) -> None:
        self.world.connections.forget()
        self.current.clear()
        self.due.clear()

    @rule(data=st.data())
    def somebody_listens_there(self, data: st.DataObject) -> None:
        asked: list[Deferred[bool]] = [answer for _, answer in self.world.looked_for if not answer.done]
        if asked:
            data.draw(st.sampled_from(asked)).complete(False)

    @rule(seconds=st.sampled_from((0.3, 1.1, 3.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance_s(seconds)

    @invariant()
    def holds(self) -> None:
        fenced = self.world.fenced[len(self.expected) :]
        for broker, epoch in fenced:
            assert broker == epoch
            assert self.due.pop(broker) <= self.now_s + 0.001, "its grace time is not over, or it has none"
        self.expected += fenced
        assert all(self.now_s < due_s + LOOK_S for due_s in self.due.values()), "it should be fenced by now"


TestConnections = Connections.TestCase
TestConnections.settings = settings(max_examples=100, stateful_step_count=25)
