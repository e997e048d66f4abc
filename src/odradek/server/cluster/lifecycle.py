"""States of a broker, as a table (org.apache.kafka.metadata.BrokerState).

    NOT_RUNNING -> STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN -> NOT_RUNNING

STARTING: the broker loads its log directories and sends its registration. RECOVERY: the broker is registered and catches up with the
metadata log. RUNNING: the broker is unfenced and serves clients. PENDING_CONTROLLED_SHUTDOWN: the controller moves leaders away. A failure
leads from every state but NOT_RUNNING to SHUTTING_DOWN.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from odradek.base.errors import OdradekError
from odradek.base.notify import tell_each


class BrokerState(IntEnum):
    """State of a broker, with the value of Kafka's metric BrokerState."""

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
"""State -> states that may follow it."""


class IllegalTransition(OdradekError):
    """Change of state that `TRANSITIONS` does not contain: a programming error."""


class BrokerStateMachine:
    """Current state of a broker; `listeners` are called with every new state."""

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.listeners: list[Callable[[BrokerState], object]] = []

    def to(self, state: BrokerState) -> None:
        """Change the state. Raises IllegalTransition when `TRANSITIONS` does not contain the change."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"a broker cannot change from {self.state.name} to {state.name}")
        self.state = state
        tell_each(self.listeners, state)
