"""Transaction indexes missing below the recovery point, without which read_committed consumers would get aborted records.

A segment without aborted transactions has no `.txnindex`, so that a missing file proves nothing. The producer snapshot at the end of the
segment shows more: when a producer in it has ever had a marker, the segment may hold one. Its headers are then read. This happens once
in the segment's life, because an empty index is left when there are no aborted transactions. A snapshot forgets producers that wrote
nothing for producer.id.expiration.ms. A lost index can therefore be overlooked when its segment spans more time than that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from odradek.base.disk import Disk
from odradek.base.errors import OdradekError
from odradek.records.batch import CONTROL_MASK
from odradek.storage.names import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from odradek.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot
from odradek.storage.producer_state import ProducerStateManager
from odradek.storage.recovery import follow_batch, rebuild_producer_state, walk_batches
from odradek.storage.segment import Segment

logger = logging.getLogger(__name__)


def find_lost_aborts(
    disk: Disk,
    segments: Sequence[Segment],
    present: Collection[str],
    state: ProducerStateManager,
    log_start_offset: int,
    new_state: Callable[[], ProducerStateManager],
    now_ms: int,
    *,
    lost: Collection[int] = (),
) -> int:
    """Rebuild the transaction indexes that are missing although their segments hold markers; return the number of segments read.

    `present` are the names in the directory, and `state` is the producer state at the log end. `lost` are the base offsets of segments
    whose index is known to be lost, even if `present` contains it. Raises OSError from the disk.
    """
    looked_at = 0
    for index, segment in enumerate(segments):
        known = segment.base_offset in lost
        if not segment.size or (not known and segment_file(segment.base_offset, TXN_INDEX_SUFFIX) in present):
            continue
        following = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if not known and not _may_hold_markers(disk, segment.directory, following, state):
            continue
        looked_at += 1
        if _holds_markers(segment):
            logger.warning("Searching for aborted transactions in %s: it has markers and no transaction index", segment.log_path)
            _rebuild(segments[:index], segment, new_state(), log_start_offset, now_ms)
        else:
            segment.txn_index.leave_file()
    return looked_at


def _may_hold_markers(disk: Disk, directory: str, following: int | None, state: ProducerStateManager) -> bool:
    if following is None:
        return any(entry.coordinator_epoch >= 0 for entry in state.producers.values())
    try:
        entries = decode_snapshot(disk.read_bytes(f"{directory}/{segment_file(following, SNAPSHOT_SUFFIX)}"))
    except (FileNotFoundError, CorruptSnapshotError):
        return True
    return any(entry.coordinator_epoch >= 0 for entry in entries)


def _holds_markers(segment: Segment) -> bool:
    try:
        return any(batch.attributes & CONTROL_MASK for batch in segment.scan())
    except OdradekError:
        # A reader of the unreadable batch gets the error; the batches before it may hold markers.
        return True


def _rebuild(before: Sequence[Segment], segment: Segment, state: ProducerStateManager, log_start_offset: int, now_ms: int) -> None:
    state.snapshots.overlook_above(segment.base_offset)
    rebuild_producer_state(state, before, log_start_offset, segment.base_offset, now_ms, clean=False)
    segment.txn_index.begin_anew()
    try:
        for _, buffer, at, header in walk_batches(segment):
            follow_batch(segment, state, buffer, at, header)
    except OdradekError as error:
        logger.error("The transaction index of %s ends early: %s", segment.log_path, error)
    segment.txn_index.complete()
