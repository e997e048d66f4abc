"""The log as the core sees it, and what it decides from it alone."""

from __future__ import annotations

from typing import Protocol

from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch


class RaftLog(Protocol):
    """Reading only: what changes the log comes out of the core as work to be done."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end(self) -> OffsetAndEpoch:
        """The next offset, and the epoch of the last record (or of the snapshot at the start; 0 when there is nothing)."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """The largest epoch in the log that is <= `epoch` and where it ends; None when the log has none."""
        ...

    def earliest_snapshot(self) -> OffsetAndEpoch | None: ...

    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Bytes of the snapshot, None when there is no such snapshot."""
        ...


class FetchPosition:
    """What a leader makes of the position a replica fetches from: valid, diverging (truncate to there), or below the log (a snapshot)."""

    __slots__ = ("diverging", "snapshot")

    def __init__(self, diverging: OffsetAndEpoch | None = None, snapshot: OffsetAndEpoch | None = None) -> None:
        self.diverging = diverging
        self.snapshot = snapshot

    @property
    def valid(self) -> bool:
        return self.diverging is None and self.snapshot is None


def end_offset_for_epoch(log: RaftLog, epoch: int) -> OffsetAndEpoch:
    """Where `epoch`, or the largest one below it, ends; the oldest snapshot stands for what lies before the log."""
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
    """Whether a log that ends at `offset`, with a last record of `epoch`, is a prefix of this (ReplicatedLog.validateOffsetAndEpoch)."""
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
