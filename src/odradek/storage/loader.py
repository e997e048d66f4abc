"""Opening of a log directory: left-over files, loading and recovery of segments (Kafka's LogLoader)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import DamagedFileError, read_partition_metadata
from odradek.storage.index import CorruptIndexError
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.log import Log
from odradek.storage.lost_aborts import find_lost_aborts
from odradek.storage.names import (
    CLEANED_SUFFIX,
    DELETE_DIR_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of_file,
    segment_file,
)
from odradek.storage.options import LogOptions
from odradek.storage.producer_state import ProducerStateManager
from odradek.storage.recovery import Recovered, note_epochs, rebuild_producer_state, recover_segment
from odradek.storage.segment import Segment, SegmentLimits

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NEVER = 0x7FFF_FFFF_FFFF_FFFF
"""Default of flush.messages; with it no flush is promised before an append is acknowledged."""


def load_log(
    disk: Disk,
    clock: Clock,
    topic_partition: TopicPartition,
    directory: str,
    config: TopicConfig,
    *,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    clean: bool = False,
    compacted: bool = False,
    options: LogOptions | None = None,
    on_segment: Callable[[int, int, int], None] | None = None,
) -> Log:
    """Open the log in `directory` (which exists), creating an empty segment when there are no segments.

    `log_start_offset` and `recovery_point` come from the checkpoints. `clean` says that the last shutdown was clean. `compacted` says that
    the cleaner has worked on the log: offsets may then be missing, whatever the policy is now. `on_segment(done, total, bytes)` is called
    as segments are recovered; `bytes` is the size of the previous segment.

    Raises OSError, and StorageError also for files that Kafka refuses.
    """
    return _Loader(
        disk,
        clock,
        topic_partition,
        directory,
        config,
        log_start_offset,
        recovery_point,
        clean,
        compacted,
        options or LogOptions(),
        on_segment,
    ).load()


class _Loader:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        topic_partition: TopicPartition,
        directory: str,
        config: TopicConfig,
        log_start_offset: int,
        recovery_point: int,
        clean: bool,
        compacted: bool,
        options: LogOptions,
        on_segment: Callable[[int, int, int], None] | None,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.clean = clean
        self.compacted = compacted
        self.options = options
        self.on_segment = on_segment
        self.limits = SegmentLimits(config.index_interval_bytes, config.segment_index_bytes)
        self.segments: list[Segment] = []
        self.recovered: set[int] = set()
        """Base offsets of the segments whose indexes were rebuilt."""
        self.aborts_lost: set[int] = set()
        """Base offsets of the segments whose transaction index was damaged."""
        self.swapped: set[int] = set()
        """Base offsets of the segments that were `.swap` files."""
        self.leader_epochs = LeaderEpochCache(disk, f"{directory}/{LEADER_EPOCH_CHECKPOINT}", options.new_lock())
        self.former_epochs: dict[int, int] = {}
        """Start offset in the checkpoint by epoch, for the epochs that recovery reads from the batches."""
        self.state = self._new_state()
        self.rebuilt: list[Segment] = []
        """Segments below the recovery point with rebuilt indexes. Flushes need not include these segments, so the log must fsync the
        indexes.
        """

    def _new_state(self) -> ProducerStateManager:
        return ProducerStateManager(
            self.disk,
            self.directory,
            str(self.topic_partition),
            expiration_ms=self.options.producer_expiration_ms,
            verify_transactions=self.options.verify_transactions,
        )

    def _tolerant(self, read: Callable[[], T]) -> T | None:
        """Read a file; None when it is damaged and the log was never flushed.

        A power cut may damage the file of such a log, which is recovered from its start in any case. Otherwise raises StorageError.
        """
        try:
            return read()
        except StorageError as error:
            if self.clean or self.recovery_point > 0:
                raise
            logger.warning("Ignoring a file that was not durable when the broker stopped: %s", error)
            return None

    def load(self) -> Log:
        never_flushed = self.recovery_point <= 0
        topic_id = self._tolerant(lambda: read_partition_metadata(self.disk, f"{self.directory}/{PARTITION_METADATA}"))
        names, self.swapped = finish_swaps(self.disk, self.directory)
        epochs_lost = not self._load_epochs()
        self._load_segments(names)
        if epochs_lost:
            self._rebuild_epochs()
        if self.directory.endswith(DELETE_DIR_SUFFIX):
            end_offset = self.recovery_point = 0
        else:
            if not self.clean:
                self._recover()
            try:
                end_offset = self._end_offset()
            except KafkaError as error:
                logger.error("Recovering the end of a log after a clean shutdown: %s", error)
                self.recovery_point = self.segments[-1].base_offset
                self.clean = False
                self._recover()
                end_offset = self._end_offset()
        if not self.segments:
            self.segments.append(self._new_segment(self.log_start_offset))
            end_offset = self.log_start_offset
        self.leader_epochs.truncate_from_end(end_offset)
        if self.leader_epochs.is_ahead(end_offset):
            # In a compacted log the next recovery would keep these epochs, and they would hide the epochs of new records.
            self.leader_epochs.flush()
        log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        if not self.clean and not epochs_lost:
            self._complete_epochs(log_start_offset, end_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self.state.snapshots.remove_strays([segment.base_offset for segment in self.segments])
        rebuild_producer_state(self.state, self.segments, log_start_offset, end_offset, self.clock.time_ms(), clean=self.clean)
        if not self.directory.endswith(DELETE_DIR_SUFFIX):
            present = {*names, *(segment_file(base, TXN_INDEX_SUFFIX) for base in self.recovered)}
            lost = self.aborts_lost - self.recovered
            now_ms = self.clock.time_ms()
            find_lost_aborts(self.disk, self.segments, present, self.state, log_start_offset, self._new_state, now_ms, lost=lost)
        log = Log(
            self.disk,
            self.clock,
            self.topic_partition,
            topic_id,
            self.directory,
            self.config,
            segments=self.segments,
            log_start_offset=log_start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if self.clean else min(self.recovery_point, end_offset),
            leader_epochs=self.leader_epochs,
            producer_state=self.state,
            options=self.options,
            clean=self.clean and not self.rebuilt,
        )
        self._owe_files(log, names, never_flushed=never_flushed)
        if not self.clean and self.config.flush_messages < _NEVER:
            # After a failed fsync the page cache may hold data that is not on disk, and the next fsync would report it as durable.
            log.segments.write_again(log.recovery_point)
        if log.flush_due:
            # flush.messages limits the records that are not flushed, and without an append no flush would follow for the recovered records.
            flush = log.begin_flush()
            if flush is not None:
                flush.run(self.disk)
                log.finish_flush(flush)
        for segment in self.segments:
            segment.rest()
        return log

    def _owe_files(self, log: Log, names: list[str], *, never_flushed: bool) -> None:
        """Add to the log's next flush the files that were made here, or before and are perhaps not durable."""
        for segment in self.rebuilt:
            for path in segment.index_paths():
                log.durability.owe(path)
        if not self.clean and never_flushed:
            # The process that made these files may have been killed before it made them durable.
            for name in (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT):
                if name in names:
                    log.durability.owe(f"{self.directory}/{name}")
            log.durability.owe(self.directory, name_only=True)

    def _load_epochs(self) -> bool:
        """Read the checkpoint. Return False when it is not usable: missing, empty, or torn by a power cut or a bad sector."""
        try:
            self.leader_epochs.load()
        except DamagedFileError as error:
            logger.warning("The leader epochs are rebuilt from the batches: %s", error)
            return False
        return bool(self.leader_epochs.entries)

    def _rebuild_epochs(self) -> None:
        """Read the epochs from the batches, which show all epochs but those without a record. Recovery reads the batches that are not
        flushed.
        """
        # A segment whose indexes were rebuilt has added its epochs already, and earlier epochs could not be added after them.
        self.leader_epochs.clear()
        for segment in self.segments[: None if self.clean else self._first_unflushed()]:
            note_epochs(segment, self.leader_epochs)
        if self.leader_epochs.is_behind(1 << 62):
            self.leader_epochs.flush()

    def _complete_epochs(self, log_start_offset: int, end_offset: int) -> None:
        """Read from the batches the epochs between the log start and the first known epoch.

        They are missing when the log start moved back because its checkpoint is older than that of the epochs. No epoch is known when the
        log start had been raised to the log end. Without these epochs a follower would keep records there that are not in this log.
        """
        earliest = self.leader_epochs.earliest
        first_known = end_offset if earliest is None else earliest.start_offset
        if first_known <= log_start_offset:
            return
        found = LeaderEpochCache(self.disk, self.leader_epochs.path)
        for segment in self.segments:
            if segment.base_offset < first_known:
                note_epochs(segment, found)
        self.leader_epochs.complete(found.entries)

    def _first_unflushed(self) -> int:
        """Return the index of the segment that holds the recovery point."""
        first = 0
        for index, segment in enumerate(self.segments):
            if segment.base_offset <= self.recovery_point:
                first = index
        return first

    def _new_segment(self, base_offset: int) -> Segment:
        preallocate = self.config.segment_bytes if self.config.preallocate else 0
        return Segment.create(self.disk, self.directory, base_offset, self.limits, self.clock.time_ms(), preallocate=preallocate)

    def _load_segments(self, names: list[str]) -> None:
        present = set(names)
        for name in names:
            offset = offset_of_file(name)
            if offset is None:
                continue
            suffix = name[name.index(".") :]
            if suffix == LOG_SUFFIX:
                self._load_segment(offset, present)
            elif suffix in SEGMENT_SUFFIXES and segment_file(offset, LOG_SUFFIX) not in present:
                logger.warning("Removing %s/%s, an index without its log", self.directory, name)
                self.disk.remove(f"{self.directory}/{name}")

    def _load_segment(self, offset: int, present: set[str]) -> None:
        now_ms = self.clock.time_ms()
        segment = Segment.load(self.disk, self.directory, offset, self.limits, now_ms)
        names = [segment_file(offset, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        if offset in self.swapped and names[0] not in present:
            # The segment was swapped in without an index, which does not mean that its log is damaged. Only the indexes are rebuilt:
            # recovery would truncate flushed records from the first damaged one on.
            segment.rebuild_indexes()
            present.update(names)
            self.rebuilt.append(segment)
        try:
            segment.sanity_check(present)
        except CorruptIndexError as error:
            # Recovery follows for a segment at or beyond the recovery point.
            if not self.clean and offset >= self.recovery_point:
                pass
            elif segment_file(offset, INDEX_SUFFIX) in present:
                # Only the transaction index is damaged. `find_lost_aborts` rebuilds it from the batches, as it does a missing one. Recovery
                # would truncate flushed records from the first damaged one on.
                logger.warning("Removing a damaged index: %s", error)
                self.disk.remove(segment.txn_index.path)
                self.aborts_lost.add(offset)
                segment.txn_index.assume_empty()
            else:
                logger.warning("Rebuilding the indexes of %s: %s", segment.log_path, error)
                segment.txn_index.begin_anew()
                self._recover_segment(segment, below_recovery_point=True)
                segment.txn_index.complete()
                self.rebuilt.append(segment)
        self.segments.append(segment)

    def _recover_segment(self, segment: Segment, *, below_recovery_point: bool = False) -> Recovered:
        state = self._new_state()
        if below_recovery_point:
            # The snapshots after this segment are still valid.
            state.snapshots.overlook_above(segment.base_offset)
        # A snapshot from before the first segment does not count: the batches in between, and perhaps their markers, are gone. Retention
        # may have removed them before they were flushed, and a power cut may have torn the snapshot at the segment's base offset.
        first_offset = (self.segments[0] if self.segments else segment).base_offset
        log_start_offset = max(self.log_start_offset, first_offset)
        rebuild_producer_state(state, self.segments, log_start_offset, segment.base_offset, self.clock.time_ms(), clean=False)
        self.recovered.add(segment.base_offset)
        recovered = recover_segment(segment, state, self.leader_epochs, self.former_epochs)
        if self.leader_epochs.is_behind(1 << 62):
            self.leader_epochs.flush()
        state.take_snapshot()
        # The snapshot is on disk; the log's own producer state reads it later (`rebuild_producer_state`).
        self.state = self._new_state()
        return recovered

    def _recover(self) -> None:
        """Recover every segment from the one that holds the recovery point on, and drop everything after the first damage."""
        first = self._first_unflushed()
        unflushed = self.segments[first:]
        del self.segments[first:]
        if unflushed and not self.config.compact:
            # The batches show which epochs begin there; checkpoint entries of lost records would hide these epochs.
            self.former_epochs = dict(self.leader_epochs.entries)
            self.leader_epochs.truncate_from_end(unflushed[0].base_offset)
        for done, segment in enumerate(unflushed):
            if self.on_segment is not None:
                self.on_segment(done, len(unflushed), unflushed[done - 1].size if done else 0)
            # After a roll this segment may lie below the stored recovery point, and no later start would rebuild its transaction index.
            segment.txn_index.begin_anew()
            recovered = self._recover_segment(segment)
            segment.txn_index.complete(only_if_needed=True)
            # The process that created the file may have been killed before it made the name durable.
            segment.directory_entry_durable = False
            self.segments.append(segment)
            rest = unflushed[done + 1 :]
            if recovered.cut or self._tail_is_missing(recovered, rest):
                logger.warning(
                    "%s: %d invalid bytes were truncated, %d later segments are deleted", segment.log_path, recovered.cut, len(rest)
                )
                for later in rest:
                    self._drop(later)
                if rest:
                    # Without the fsync a power cut could bring a dropped segment back behind new records.
                    self.disk.fsync_dir(self.directory)
                break
        if self.on_segment is not None:
            self.on_segment(len(unflushed), len(unflushed), self.segments[-1].size if unflushed else 0)

    def _tail_is_missing(self, recovered: Recovered, rest: list[Segment]) -> bool:
        """Return whether records between this segment and the next one are lost.

        A power cut may have kept a later segment and lost the end of this one. A hole then appears in a log that was never compacted.
        """
        never_compacted = not self.config.compact and not self.compacted
        return bool(rest) and recovered.contiguous and never_compacted and recovered.next_offset < rest[0].base_offset

    def _drop(self, segment: Segment) -> None:
        for path in segment.mark_deleted():
            self.disk.remove(path)
        self.state.snapshots.delete(segment.base_offset)

    def _end_offset(self) -> int:
        if not self.segments:
            return self.log_start_offset
        end_offset = _next_offset(self.segments[-1])
        if end_offset < self.log_start_offset:
            logger.warning("%s ends at %d, below its log start %d: starting again there", self.directory, end_offset, self.log_start_offset)
            for segment in self.segments:
                self._drop(segment)
            self.segments.clear()
            self.leader_epochs.clear()
            self.leader_epochs.flush()
            self.state.truncate_fully(self.log_start_offset)
        return max(end_offset, self.log_start_offset)


def finish_swaps(disk: Disk, directory: str) -> tuple[list[str], set[int]]:
    """Remove `.deleted` and `.cleaned` files and complete or drop `.swap` files.

    Return the sorted names of the remaining files, and the base offsets of the segments that were swapped in. A swap whose offset is at or
    above the lowest `.cleaned` file was incomplete when the broker died: the old segments still count.
    """
    names = disk.listdir(directory)
    temporary = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not temporary:
        return names, set()
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_of_file(name)) is not None]
    lowest_cleaned = min(cleaned, default=None)
    swaps: list[str] = []
    for name in temporary:
        offset = offset_of_file(name)
        if name.endswith(SWAP_SUFFIX) and offset is not None and (lowest_cleaned is None or offset < lowest_cleaned):
            swaps.append(name)
        else:
            disk.remove(f"{directory}/{name}")
    _drop_replaced(disk, directory, swaps)
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.fsync_dir(directory)
    logs = {offset for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and (offset := offset_of_file(name)) is not None}
    return disk.listdir(directory), logs


def _drop_replaced(disk: Disk, directory: str, swaps: list[str]) -> None:
    """Remove the segments that the swapped-in segments replace."""
    low: int | None = None
    high = 0
    limits = SegmentLimits(1 << 31, 1 << 20)
    for name in swaps:
        base = offset_of_file(name)
        if base is None or not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        next_offset = base
        segment = Segment(disk, directory, base, limits, 0)
        segment.open_as(f"{directory}/{name}")
        for batch in segment.scan(0, read_ahead=1 << 16):
            next_offset = batch.last_offset + 1
        segment.close_handles()
        low = base if low is None else min(low, base)
        high = max(high, next_offset)
    if low is None:
        return
    for name in disk.listdir(directory):
        offset = offset_of_file(name)
        if offset is None or not low <= offset < high:
            continue
        # As in the swap itself, the snapshot at the new segment's base stays: it may know batches of producers whose records were compacted
        # away.
        if name.endswith(SEGMENT_SUFFIXES) or (
            name.endswith(SNAPSHOT_SUFFIX) and segment_file(offset, LOG_SUFFIX + SWAP_SUFFIX) not in swaps
        ):
            disk.remove(f"{directory}/{name}")


def _next_offset(segment: Segment) -> int:
    """Return the offset after the last batch in the file; the base offset when it is empty."""
    next_offset = segment.base_offset
    if segment.size == 0:
        return next_offset
    position = segment.position_before(segment.offset_index.last_offset)
    for batch in segment.scan(position, read_ahead=64 * 1024):
        next_offset = batch.last_offset + 1
    return next_offset
