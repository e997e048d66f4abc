"""States of a classic group and their transitions (org.apache.kafka.coordinator.group.classic.ClassicState)."""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """State of a classic group; the values are the names that clients see."""

    EMPTY = "Empty"
    """The group has no members; committed offsets keep it in existence."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """JoinGroups are parked until all members have joined, or the rebalance timeout has passed."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """SyncGroups are parked until the leader has sent the assignment and the assignment is stored."""
    STABLE = "Stable"
    """The assignment is stored, and members may fetch it."""
    DEAD = "Dead"
    """The group is unloaded; its members are sent to another coordinator."""


TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    # A first member joins.
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    # All members have joined; or all members are gone.
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}),
    # The assignment is stored; or a member joins, leaves, fails, or misses its SyncGroup.
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    # A member rejoins with other metadata, leaves or fails.
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset({ClassicState.DEAD}),
}
"""State -> states that may follow."""
