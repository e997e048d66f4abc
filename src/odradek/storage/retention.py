"""Retention: deletion of segments below the log start, beyond retention.bytes or older than retention.ms."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.storage.appending import roll
from odradek.storage.segment import Segment

if TYPE_CHECKING:
    from odradek.storage.log import Log

logger = logging.getLogger(__name__)


def delete_old_segments(log: Log, now_ms: int) -> int:
    """Delete segments as `Log.delete_old_segments`. The checks run in Kafka's order, each on the segments that the previous one left."""
    deleted = _delete(log, lambda index, _: index + 1 < len(log.bases) and log.bases[index + 1] <= log.log_start_offset)
    if not log.config.delete:
        return deleted
    return deleted + _delete_by_size(log) + _delete_by_time(log, now_ms)


def _delete_by_size(log: Log) -> int:
    limit = log.config.retention_bytes
    if limit < 0:
        return 0
    excess = log.size - limit

    def breached(_: int, segment: Segment) -> bool:
        nonlocal excess
        if excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    return _delete(log, breached) if excess >= 0 else 0


def _delete_by_time(log: Log, now_ms: int) -> int:
    limit = log.config.retention_ms
    if limit < 0:
        return 0

    def breached(_: int, segment: Segment) -> bool:
        timestamp_ms = segment.largest_timestamp()
        if timestamp_ms > now_ms and segment.size:
            ahead_s = (timestamp_ms - now_ms) / 1000
            logger.warning(
                "%s: retention.ms keeps segment %d and all later ones: it has a record whose timestamp is %.3f s in the future (%d)",
                log.name,
                segment.base_offset,
                ahead_s,
                timestamp_ms,
            )
        return now_ms - timestamp_ms > limit

    return _delete(log, breached)


def _delete(log: Log, breached: Callable[[int, Segment], bool]) -> int:
    """Remove the oldest segments while `breached` holds, but no segment that reaches the high watermark and no empty active one."""
    count = 0
    last = len(log.segments) - 1
    for index, segment in enumerate(log.segments):
        upper = log.bases[index + 1] if index < last else log.log_end_offset
        if log.high_watermark < upper or not breached(index, segment) or (index == last and segment.size == 0):
            break
        count += 1
    if count:
        _remove_oldest(log, count)
    return count


def _remove_oldest(log: Log, count: int) -> None:
    """Remove the `count` oldest segments, rolling first when that is all of them, and raise the log start accordingly."""
    if count == len(log.segments) and log.active.size:
        roll(log, log.log_end_offset)
    count = min(count, len(log.segments) - 1)
    if count > 0:
        log.maybe_increment_log_start_offset(log.bases[count])
        for _ in range(count):
            log.remove_segment(0)
