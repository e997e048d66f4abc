"""In-sync replicas as a leader knows them, and changes on their way to the controller (KIP-497, KIP-841).

| state            | isr (durable)  | maximal_isr (bounds the high watermark) | next |
|------------------|----------------|-----------------------------------------|------|
| Committed        | as committed   | isr                                     | PendingExpand, PendingShrink |
| PendingExpand(r) | as before      | isr + r: as if r were in already        | Committed (new, or back when the controller refused) |
| PendingShrink(R) | as before      | isr: R counts until it is out for sure  | Committed (new, or back when the controller refused) |

In both pending states the maximal set is the stricter one, so a lost or late response can never make the leader acknowledge too early.
Metadata of a newer partition epoch (which comes with every new leader epoch) replaces any state by Committed. Metadata of the epoch that a
response has brought already does not: a change that was proposed since then stays pending. (Kafka 4.3.1 goes back to Committed there.)
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode

IsrSet = frozenset[int]


class CommittedIsr:
    """ISR without a change in progress."""

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
    """ISR while the leader has asked the controller to add `replica_id`."""

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
    """ISR while the leader has asked the controller to remove `out_of_sync`."""

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
"""Errors that say: the controller has not applied the change, and this broker's partition epoch is right. The leader returns to the
committed state.
"""

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
"""Errors that say: this broker's metadata is old. The change stays pending until newer metadata replaces the state. After any other error
the same change is sent again.
"""
