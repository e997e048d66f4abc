"""Replacement of segments by the cleaned segment made from them (Kafka's LocalLog.replaceSegments).

The steps on disk, each of which a crash may follow; `loader.finish_swaps` is the other half:

    1. all files `.cleaned`, durable (executor)         the old segments count, `.cleaned` files are removed
    2. `.cleaned` -> `.swap`                            while a `.cleaned` file exists the old segments count, then the new one
    3. the old files -> `.deleted`                      the new segment counts; the old segments are removed
    4. `.swap` -> final names, the log first            the same
    5. the directory is fsynced (executor)              only then may the `.deleted` files be removed

Steps 2 to 4 are renames in one directory, which file systems with a journal write to the disk in order. They happen on the loop, together
with the change in memory: no code on the loop sees a log whose segments and files differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.disk import Disk
from odradek.storage.compaction.plan import CleaningPlan, Source
from odradek.storage.compaction.writer import CleanedSegment
from odradek.storage.flushing import Guarded
from odradek.storage.log import Log
from odradek.storage.names import CLEANED_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX
from odradek.storage.segment import Segment, SegmentLimits


class Swapped:
    """Swap that lacks only step 5: call `sync` in an executor, then `finish` on the loop."""

    __slots__ = ("_deleted", "_disk", "_log", "_segment")

    def __init__(self, disk: Disk, log: Log, segment: Segment, deleted: list[str]) -> None:
        self._disk = disk
        self._log = log
        self._segment = segment
        self._deleted = deleted

    def sync(self) -> None:
        """Fsync the directory. Raises OSError from the disk, among them FileNotFoundError when the directory was renamed since."""
        self._disk.fsync_dir(self._segment.directory)

    def finish(self) -> None:
        """Schedule the removal of the old segments' files, after file.delete.delay.ms."""
        self._segment.directory_entry_durable = True
        self._log.segments.deleted += self._deleted


def swap_in(disk: Disk, plan: CleaningPlan, cleaned: CleanedSegment, sources: Sequence[Source], now_ms: int) -> Swapped | None:
    """Do steps 2 to 4, on the loop. Return None without any change when the log has changed since the plan was made.

    Raises KafkaError KAFKA_STORAGE_ERROR when the disk fails: the directory is then offline.
    """
    log = plan.log
    if not plan.is_valid() or not all(plan.holds(source) for source in sources):
        return None
    with Guarded(log, changing=True):
        for suffix in SEGMENT_SUFFIXES:
            path = cleaned.path(suffix)
            if disk.exists(path):
                disk.rename(path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
        deleted = [path for source in sources for path in source.segment.mark_deleted()]
        for suffix in SEGMENT_SUFFIXES:
            path = cleaned.path(suffix).removesuffix(CLEANED_SUFFIX)
            if disk.exists(path + SWAP_SUFFIX):
                disk.rename(path + SWAP_SUFFIX, path)
        limits = SegmentLimits(log.config.index_interval_bytes, log.config.segment_index_bytes)
        segment = Segment.load(disk, log.directory, cleaned.base_offset, limits, now_ms)
        segment.first_batch_timestamp = cleaned.first_timestamp
        segment.max_timestamp, segment.max_timestamp_offset = cleaned.max_timestamp, cleaned.max_timestamp_offset
        segment.max_timestamp_known = True
        segment.directory_entry_durable = False
        segment.rest()
        log.replace_segments(segment, [source.segment for source in sources])
        return Swapped(disk, log, segment, deleted)
