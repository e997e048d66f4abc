"""The states of a classic group and the ways between them (org.apache.kafka.coordinator.group.classic.ClassicGroupState)."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The values are what clients see."""

    EMPTY = "Empty"
    """No members; committed offsets keep it in existence."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """JoinGroups are parked until all members are there or the rebalance timeout has passed."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """SyncGroups are parked until the leader has brought the assignment and it is stored."""
    STABLE = "Stable"
    """Every member may have its assignment."""
    DEAD = "Dead"
    """Unloaded; whoever still holds the group is sent elsewhere."""


TRANSITIONS: dict[State, frozenset[State]] = {
    # A first member joins.
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    # All have joined; or nobody is left.
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    # The assignment is stored; or a member joins, leaves, fails, does not sync in time.
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    # A member joins anew with something else to say, leaves or fails.
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}
"""From -> to."""
