"""Limits of a fetch's view of a log, and divergence of the fetcher's log from the local log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.replication.fetch_params import FetchPartition, Isolation

if TYPE_CHECKING:
    from odradek.storage.log import Log


def visible_end(log: Log, isolation: Isolation) -> int:
    """Return the offset (exclusive) up to which a fetch of this isolation may read."""
    if isolation is Isolation.HIGH_WATERMARK:
        return log.high_watermark
    return log.log_end_offset if isolation is Isolation.LOG_END else log.last_stable_offset


def divergence(log: Log, wanted: FetchPartition) -> tuple[int, int] | None:
    """Return the epoch and end offset at which the fetcher's log diverges from the local log; None when it is a prefix (KIP-595).

    Raises OFFSET_OUT_OF_RANGE when the fetcher's last epoch is unknown here, or its offset is before the local log start.
    """
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == -1:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"this broker does not know the end offset of epoch {wanted.last_fetched_epoch}")
    if wanted.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {wanted.fetch_offset} is before the log start {log.log_start_offset}")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None
