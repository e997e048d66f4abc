"""The states of a classic group and the ways between them (org.apache.kafka.coordinator.group.classic.ClassicState)."""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
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


TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    # A first member joins.
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    # All have joined; or nobody is left.
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}),
    # The assignment is stored; or a member joins, leaves, fails, does not sync in time.
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    # A member joins anew with something else to say, leaves or fails.
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset({ClassicState.DEAD}),
}
"""From -> to."""
