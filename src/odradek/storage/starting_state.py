"""State that a follower needs besides the records to begin in the middle of a partition (Kafka's TierStateMachine).

Leader epochs and producers follow from the records before that offset, which the follower never reads. Both have Kafka's file formats, so
that they may come from a leader, from another directory or from an object store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import StorageError
from odradek.storage.leader_epochs import EpochEntry
from odradek.storage.producer_snapshot import CorruptSnapshotError, ProducerSnapshotEntry, decode_snapshot

if TYPE_CHECKING:
    from odradek.storage.log import Log


class StartingState(NamedTuple):
    """State of a log at an offset, as it follows from the records below."""

    epochs: Sequence[EpochEntry]
    """Epochs that rise in both columns; each begins below the offset."""
    producers: bytes
    """Content of a `.snapshot` file at the offset."""

    def producers_before(self, offset: int) -> list[ProducerSnapshotEntry]:
        """Return the producers. Raises StorageError when epochs or producers are not valid for a log at `offset`."""
        before = EpochEntry(-1, -1)
        for entry in self.epochs:
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset or entry.start_offset >= offset:
                raise StorageError(f"{self.epochs} are not the leader epochs of a log that ends at {offset}")
            before = entry
        try:
            producers = decode_snapshot(self.producers)
        except CorruptSnapshotError as error:
            raise StorageError(f"no producer snapshot at {offset}: {error}") from None
        for each in producers:
            if each.last_offset >= offset or each.txn_first_offset >= offset:
                raise StorageError(f"the state of producer {each.producer_id} is beyond offset {offset}: {each}")
        return producers


def starting_state(log: Log, offset: int) -> StartingState | None:
    """Return the state of `log` at `offset`, for a follower that begins there; None where the state is unknown.

    The state is known at the log end and at the offsets of producer snapshots, which include the base offsets of segments. Reads a small
    file. Raises OSError from the disk.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return None
    producers = log.producer_state.snapshot_at(offset)
    if producers is None:
        return None
    return StartingState([entry for entry in log.leader_epochs.entries if entry.start_offset < offset], producers)
