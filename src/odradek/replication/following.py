"""Changes of a follower's log by what its leader says: appends, truncations and resets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.storage.append import UnexpectedAppendOffsetError

if TYPE_CHECKING:
    from odradek.storage.log import Log


def append(log: Log, records: memoryview, leader_epoch: int) -> None:
    """Append records from the leader at the log end."""
    try:
        log.append_as_follower(records, leader_epoch)
    except UnexpectedAppendOffsetError as error:
        if log.log_end_offset != log.log_start_offset or not error.first_offset < log.log_end_offset <= error.last_offset:
            raise
        # The leader's log start lies within a batch (DeleteRecords): an empty log begins with that batch.
        log.truncate_fully_and_start_at(error.first_offset)
        log.append_as_follower(records, leader_epoch)


def truncate_to_divergence(log: Log, epoch: int, end_offset: int) -> bool:
    """Truncate to where the leader's log diverges, at the end of `epoch` (KIP-595). Return whether fetching can continue at the new log
    end.

    False means that the local log does not have the epoch and was truncated to the end of an earlier epoch. The next fetch tells
    whether that is far enough. The truncation is not durable yet (`Log.truncate_to`).
    """
    local_epoch, local_end = log.end_offset_for_epoch(epoch)
    if local_epoch == -1:
        log.truncate_to(min(end_offset, log.log_end_offset), durable=False)
        return True
    if local_epoch == epoch:
        log.truncate_to(min(local_end, end_offset, log.log_end_offset), durable=False)
        return True
    log.truncate_to(min(local_end, log.log_end_offset), durable=False)
    return False


def truncate_to_high_watermark(log: Log) -> None:
    """Truncate a log without leader epochs to its high watermark, before it is fetched.

    Without an epoch the leader cannot tell where the logs diverge (as before KIP-101). The truncation is not durable yet.
    """
    if log.latest_epoch < 0:
        log.truncate_to(log.high_watermark, durable=False)


def reset(log: Log, leader_start_offset: int, leader_end_offset: int) -> None:
    """Bring the log into the range of the leader's after OFFSET_OUT_OF_RANGE (AbstractFetcherThread.fetchOffsetAndTruncate).

    A log that ends beyond the leader's end is truncated to that end. A log that ends before the leader's start restarts empty at that
    start. Otherwise the log stays unchanged, because the leader's log has changed in the meantime. The truncation is not durable yet.
    """
    if leader_end_offset < log.log_end_offset:
        log.truncate_to(leader_end_offset, durable=False)
    elif leader_start_offset > log.log_end_offset:
        log.truncate_fully_and_start_at(leader_start_offset, durable=False)
