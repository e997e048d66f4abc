"""Groups and transactions, and all else that the history of the clients shows: committed positions never go back, a partition has one owner
a generation, what is read, processed and written is so exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.testing.history import Copy, examine
from odradek.testing.history.anomalies import ALLOWED
from odradek.testing.history.events import Value
from tests.simulation.whole.plan import SINK, SOURCE

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

_OF_COORDINATORS: Final = frozenset(
    {
        "G1a",
        "precommitted-read",
        "not-copied",
        "copied-twice",
        "copied-from-nothing",
        "copy-order",
        "commit-regression",
        "lost-commit",
        "fenced-commit-accepted",
        "two-owners",
        "two-owners-in-generation",
        "generation-regression",
        "static-rebalance",
        "unexplained-fencing",
    }
)
"""Anomalies of the history that groups or transactions are to blame for; the others are those of records and their copies."""


def copied(value: Value) -> Value:
    """What a copier makes of a value."""
    return f"copy of {value}"


class CoordinatorPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def judge_history(self) -> None:
        """Has the checker of histories look at what the clients have written down."""
        story = self._story
        # Members are fenced when their coordinator is away for longer than their session.
        report = examine(
            story.events,
            copies=[Copy(SOURCE, SINK, copied)] if story.plan.copiers else [],
            allow=ALLOWED | {"unexplained-fencing"},
            limit=10,
        )
        for anomaly in report.anomalies:
            family = "coordinators" if anomaly.name in _OF_COORDINATORS else "replication"
            story.problem(family, f"{anomaly.name}: {anomaly.text}")
