"""The in-sync replicas as a leader knows them, and changes on their way to the controller (KIP-497, KIP-841).

| state            | isr (durable)  | maximal_isr (bounds the high watermark) | next |
|------------------|----------------|-----------------------------------------|------|
| Committed        | as committed   | isr                                     | PendingExpand, PendingShrink |
| PendingExpand(r) | as before      | isr + r: as if r were in already        | Committed (new, or back when the controller refused) |
| PendingShrink(R) | as before      | isr: R counts until it is out for sure  | Committed (new, or back when the controller refused) |

Either way the maximal set is the stricter one, so a lost or late answer can never make the leader acknowledge too early.
Metadata of a newer partition epoch (which a new leader epoch brings along) replaces any state by Committed. Metadata of the epoch that an
answer has told already does not: a change that was proposed since then stays pending. (Kafka 4.3.1 goes back to Committed there.)
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode

IsrSet = frozenset[int]


class CommittedIsr:
    """No change under way."""

    __slots__ = ("isr", "maximal_isr")

    def __init__(self, isr: IsrSet) -> None:
        self.isr = isr
        self.maximal_isr = isr

    @property
    def in_flight(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CommittedIsr({sorted(self.isr)})"


class PendingExpandIsr:
    """The leader has asked for `replica_id` to be added."""

    __slots__ = ("committed", "isr", "maximal_isr", "proposed_isr", "replica_id")

    def __init__(self, committed: CommittedIsr, replica_id: int) -> None:
        self.committed = committed
        self.replica_id = replica_id
        self.isr = committed.isr
        self.proposed_isr = committed.isr | {replica_id}
        self.maximal_isr = self.proposed_isr

    @property
    def in_flight(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"PendingExpandIsr({sorted(self.isr)} + {self.replica_id})"


class PendingShrinkIsr:
    """The leader has asked for `out_of_sync` to be removed."""

    __slots__ = ("committed", "isr", "maximal_isr", "out_of_sync", "proposed_isr")

    def __init__(self, committed: CommittedIsr, out_of_sync: IsrSet) -> None:
        self.committed = committed
        self.out_of_sync = out_of_sync
        self.isr = committed.isr
        self.proposed_isr = committed.isr - out_of_sync
        self.maximal_isr = committed.isr

    @property
    def in_flight(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"PendingShrinkIsr({sorted(self.isr)} - {sorted(self.out_of_sync)})"


PendingIsr = PendingExpandIsr | PendingShrinkIsr
IsrState = CommittedIsr | PendingIsr

REFUSED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller says that it has not applied the change and that our partition epoch is right: back to the committed state."""

OVERTAKEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Our metadata is behind: stay pending until newer metadata replaces the state. Any other error: send the same change again."""
