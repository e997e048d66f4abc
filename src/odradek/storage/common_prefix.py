"""Comparison of two logs of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.storage.log import Log


def common_end(source: Log, copy: Log) -> int:
    """Return the offset up to which `copy` can be kept as a copy of `source`, by their leader epochs (KIP-101, KIP-279).

    The offset is at most the end of either log. It is the copy's log start when the logs have no common records.
    """
    end = min(copy.log_end_offset, source.log_end_offset)
    while end > copy.log_start_offset:
        epoch = copy.leader_epochs.epoch_for_offset(end - 1)
        if epoch is None:
            return end
        found, source_end = source.end_offset_for_epoch(epoch)
        if found == -1:
            return copy.log_start_offset
        if found == epoch:
            return min(end, source_end)
        end = min(end - 1, source_end, copy.leader_epochs.end_offset_for(found, copy.log_end_offset)[1])
    return max(end, copy.log_start_offset)
