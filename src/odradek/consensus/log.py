"""Read-only interface of the log, and checks of fetch positions against the log."""

from __future__ import annotations

from typing import Protocol

from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch


class RaftLog(Protocol):
    """Log as the core reads it. The core returns changes of the log as work for the shell."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end(self) -> OffsetAndEpoch:
        """Next offset and epoch of the last record. In an empty log, the epoch of the snapshot at its start, or 0 without a snapshot."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the largest epoch in the log that is <= `epoch`, and its end offset (exclusive); None when the log has no such epoch."""
        ...

    def earliest_snapshot(self) -> OffsetAndEpoch | None: ...

    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Return the size of the snapshot in bytes, or None when the snapshot does not exist."""
        ...


class FetchPosition:
    """Verdict of a leader on a fetch position: valid, diverging (truncate there), or below the log's start (fetch the snapshot)."""

    __slots__ = ("diverging", "snapshot")

    def __init__(self, diverging: OffsetAndEpoch | None = None, snapshot: OffsetAndEpoch | None = None) -> None:
        self.diverging = diverging
        self.snapshot = snapshot

    @property
    def valid(self) -> bool:
        return self.diverging is None and self.snapshot is None


def end_offset_for_epoch(log: RaftLog, epoch: int) -> OffsetAndEpoch:
    """Return the end of `epoch`, or of the largest epoch below it. Before the log's start the oldest snapshot gives the answer."""
    found = log.end_offset_for_epoch(epoch)
    earliest = log.earliest_snapshot()
    if found is None:
        if earliest is not None and epoch <= earliest.epoch:
            return earliest
        return log.end
    if earliest is not None and found.offset == earliest.offset and found.epoch == epoch:
        return earliest
    return found


def validate_fetch_position(log: RaftLog, offset: int, epoch: int) -> FetchPosition:
    """Check whether a log that ends with a record of `epoch` before `offset` is a prefix of this log
    (ReplicatedLog.validateOffsetAndEpoch).
    """
    latest = log.latest_snapshot()
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
        return FetchPosition(snapshot=latest)
    start = log.start_offset
    if start == 0 and offset == 0 and epoch == 0:
        return FetchPosition()
    earliest = log.earliest_snapshot()
    if earliest is not None and (offset < start or (offset == start != 0 and epoch != earliest.epoch) or epoch < earliest.epoch):
        return FetchPosition(snapshot=latest)
    end = end_offset_for_epoch(log, epoch)
    if end.epoch != epoch or end.offset < offset:
        return FetchPosition(diverging=end)
    return FetchPosition()
