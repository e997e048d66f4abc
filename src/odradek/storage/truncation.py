"""Truncation of a log, and of its leader epochs, producers and high watermark with it.

Until a truncation is durable nothing may be written in place of the removed records: a power cut could bring whole batches back behind the
new ones. With `durable` it is made durable here, on the caller's thread. Otherwise the next write does so, unless the caller has done it
before (truncation_flush.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.storage.names import PARTITION_METADATA
from odradek.storage.recovery import may_hold_markers, rebuild_producer_state
from odradek.storage.starting_state import StartingState

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush
    from odradek.storage.log import Log


def truncate(log: Log, offset: int, *, durable: bool) -> bool:
    """Truncate as `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    log.durability.void_plans()
    log.durability.touch()
    log.segments.forget_positions()
    if log.bases[0] > offset:
        _start_over(log, offset)
    else:
        _truncate(log, offset)
    _truncated(log, durable)
    return True


def start_over_at(log: Log, offset: int, log_start_offset: int | None, state: StartingState | None, *, durable: bool) -> None:
    """Remove all records as `Log.truncate_fully_and_start_at`."""
    log.durability.void_plans()
    log.durability.touch()
    _start_over(log, offset, state=state)
    if log_start_offset is not None:
        log.log_start_offset = log_start_offset
        log.high_watermark = max(log_start_offset, min(log.high_watermark, offset))
    _truncated(log, durable)


def _truncated(log: Log, durable: bool) -> None:
    log.durability.is_cut = True
    # The directory entries of removed snapshots and segments.
    log.durability.owe(f"{log.directory}/{PARTITION_METADATA}", name_only=True)
    if log.options.on_truncated is not None:
        log.options.on_truncated(log)
    if durable:
        harden(log)


def harden(log: Log) -> None:
    """Make a truncation durable on this thread: file, names and epochs, then the checkpoints.

    With a stored recovery point above the log end, new records up to it would count as flushed.
    """
    log.flush()
    if log.options.write_checkpoints is not None:
        log.options.write_checkpoints(log)
    if log.closed:
        raise log.gone()
    log.durability.is_cut = False


def hardened(log: Log, flush: Flush) -> None:
    """Record a flush of a truncated log that ran without error, after its checkpoints were written.

    The truncation is durable then, unless the log was truncated again, renamed or closed in the meantime.
    """
    if flush.generation == log.generation:
        log.durability.is_cut = False
    log.finish_flush(flush)


def _truncate(log: Log, offset: int) -> None:
    # Without markers among the truncated batches the producers are rolled back in memory. With markers their state is rebuilt from the
    # last snapshot on, which may read a whole segment.
    markers = bool(log.producer_state.producers) and may_hold_markers(log.segments, offset)
    removed = log.bases[-1] > offset
    while log.bases[-1] > offset:
        log.remove_segment(len(log.segments) - 1)
    if removed:
        # Otherwise a power cut could bring a later segment back although this one is truncated, with a hole between them.
        log.disk.fsync_dir(log.directory)
    wanted = offset
    offset = log.active.truncate_to(offset, log.clock.time_ms())
    if offset < min(wanted, log.log_start_offset):
        # The batch that contains the log start was removed as a whole: no readable record is left, and the log may not end below its
        # start.
        _start_over(log, min(wanted, log.log_start_offset), keep_epochs=True)
        return
    log.log_end_offset = offset
    log.durability.truncated(offset)
    log.leader_epochs.truncate_from_end(offset)
    log.log_start_offset = min(offset, log.log_start_offset)
    if not markers:
        log.producer_state.retreat(offset)
    rebuild_producer_state(
        log.producer_state,
        log.segments,
        log.log_start_offset,
        offset,
        log.clock.time_ms(),
        clean=False,
        owe=log.durability.owe_snapshot,
    )
    if log.high_watermark >= offset:
        log.update_high_watermark(offset)


def _start_over(log: Log, offset: int, *, keep_epochs: bool = False, state: StartingState | None = None) -> None:
    """Replace all segments by an empty one at `offset`.

    The new segment is made last: before, a crash leaves the old log or none; afterwards all that belongs to the new log exists.
    """
    log.segments.forget_positions()
    while log.segments:
        log.remove_segment(len(log.segments) - 1)
    log.producer_state.truncate_fully(offset)
    if keep_epochs:
        log.leader_epochs.truncate_from_end(offset)
    else:
        log.leader_epochs.clear()
    if state is not None:
        # A power cut must not bring old segments back beside the new state.
        log.disk.fsync_dir(log.directory)
        log.leader_epochs.begin_with(state.epochs)
        log.leader_epochs.flush()
        log.producer_state.begin_with(offset, state.producers_before(offset), log.clock.time_ms())
    log.segments.begin(offset)
    log.log_start_offset = log.log_end_offset = offset
    log.durability.started_over(offset)
    log.high_watermark = offset
