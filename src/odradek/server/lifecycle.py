"""The states of a broker, as a table (org.apache.kafka.metadata.BrokerState).

    NOT_RUNNING -> STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN -> NOT_RUNNING

STARTING: the log directories are loaded, the registration is on its way. RECOVERY: registered and catching up with the metadata log.
RUNNING: unfenced; clients are served. PENDING_CONTROLLED_SHUTDOWN: leaders are being moved away. From every state but the first a failure
leads to SHUTTING_DOWN.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from odradek.base.errors import OdradekError
from odradek.base.telling import tell_each


class BrokerState(IntEnum):
    """The values are those of Kafka's metric BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
    UNKNOWN = 127


TRANSITIONS: dict[BrokerState, frozenset[BrokerState]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.STARTING}),
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset({BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset({BrokerState.NOT_RUNNING}),
    BrokerState.UNKNOWN: frozenset(),
}
"""State -> the states that may follow it."""


class IllegalTransition(OdradekError):
    """A change of state that the table does not have: a programming error."""


class BrokerStateMachine:
    """The current state; listeners are told of every change."""

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.listeners: list[Callable[[BrokerState], object]] = []

    def to(self, state: BrokerState) -> None:
        """Changes the state; IllegalTransition when the table does not have that change."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"a broker cannot go from {self.state.name} to {state.name}")
        self.state = state
        tell_each(self.listeners, state)
