"""Log of a partition: its state, and the operations on it (Kafka's UnifiedLog and LocalLog).

A log consists of `segments` (log_segments.py), `leader_epochs`, `producer_state` and `durability` (flushing.py), each of which keeps a part
of the state. The log itself keeps the offsets. The longer operations are functions on it: appends as leader (appending.py) and of batches
that have their offsets (assigned_offsets.py), reads (reading.py), truncations (truncation.py) and retention (retention.py).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.storage.append import AppendInfo, AppendOrigin, rules_of
from odradek.storage.appending import append_batch, roll
from odradek.storage.assigned_offsets import append_given
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.flushing import Durability, Flush, Guarded
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.log_segments import LogSegments
from odradek.storage.names import FUTURE_DIR_SUFFIX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from odradek.storage.options import LogOptions
from odradek.storage.producer_state import ProducerStateManager, VerificationGuard
from odradek.storage.reading import (
    LogRead,
    OffsetPosition,
    TimestampedOffset,
    find_offset_for_max_timestamp,
    find_offset_for_timestamp,
    read_log,
)
from odradek.storage.retention import delete_old_segments
from odradek.storage.segment import Segment
from odradek.storage.starting_state import StartingState
from odradek.storage.truncation import start_over_at, truncate
from odradek.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

__all__ = ["AppendInfo", "AppendOrigin", "Flush", "Log", "LogRead", "OffsetPosition", "TimestampedOffset"]

_CLIENT = AppendOrigin.CLIENT
"""Constant, because access to the members of an enum is slow."""


class Log:
    """Log of one partition; see the module's text. For one thread only, except where the package's docstring says otherwise.

    Raises KafkaError for errors of a client or leader. An OSError from the disk makes the log manager mark the directory as failed:
    `on_io_error` is called first, then the log raises KAFKA_STORAGE_ERROR.
    """

    __slots__ = (
        "_rested_end",
        "clock",
        "closed",
        "config",
        "directory",
        "disk",
        "durability",
        "high_watermark",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "options",
        "producer_state",
        "rules",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        directory: str,
        config: TopicConfig,
        *,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochCache,
        producer_state: ProducerStateManager,
        options: LogOptions,
        clean: bool = False,
    ) -> None:
        """Called by `loader.load_log`; `segments` is not empty.

        `clean` says that the next shutdown has nothing to flush unless the log changes.
        """
        self.disk = disk
        self.clock = clock
        self.options = options
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.name = str(topic_partition)
        self.config = config
        self.rules = rules_of(config)
        self.segments = LogSegments(disk, clock, directory, config, segments, options.jitter)
        self.durability = Durability(self.segments, leader_epochs, recovery_point, log_end_offset, clock.time_ms(), clean=clean)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.closed = False
        """True if the log is closed, deleted or offline with its directory; nothing is written to it any more."""
        self._rested_end = -1

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset}, {len(self.segments)} segments)"

    def update_config(self, config: TopicConfig) -> None:
        """Set the configuration for the next append, roll or retention check."""
        self.config = config
        self.rules = rules_of(config)
        self.segments.update_config(config)

    # -- state -------------------------------------------------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        """Segment that is appended to."""
        return self.segments.active

    @property
    def bases(self) -> list[int]:
        """Base offsets of the segments."""
        return self.segments.bases

    @property
    def generation(self) -> int:
        """Number that rises when the log is truncated, closed or renamed, or when its directory fails.

        Plans of long work made under an earlier generation are void. Appends, rolls and retention do not change it; their changes show in
        `segments`.
        """
        return self.durability.generation

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return self.segments.size

    @property
    def is_future(self) -> bool:
        """Return whether the log is a copy being moved to another log directory."""
        return self.directory.endswith(FUTURE_DIR_SUFFIX)

    @property
    def parent_directory(self) -> str:
        """Log directory that contains the log."""
        return self.directory.rpartition("/")[0]

    # -- offsets -----------------------------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Offset below which all records are durable."""
        return self.durability.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """Offset up to which read_committed consumers may read.

        It is the first offset of an open or unreplicated transaction, at most the high watermark.
        """
        unstable = self.producer_state.first_unstable_offset
        return self.high_watermark if unstable is None or unstable > self.high_watermark else max(unstable, self.log_start_offset)

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last entry of the epoch cache, -1 without an entry."""
        return self.leader_epochs.latest_epoch

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark within log start and end, and return the result.

        The high watermark may go back, because a new leader may know a lower one.
        """
        bounded = offset
        if not self.log_start_offset <= offset <= self.log_end_offset:
            bounded = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producer_state.on_high_watermark(bounded)
        return bounded

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start, for retention and DeleteRecords; return whether it moved.

        Raises KafkaError OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The log start of {self.name} cannot be raised to {offset}, beyond its high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        with Guarded(self, changing=True):
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producer_state.on_log_start(offset)
        return True

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Write partition.metadata. Raises KafkaError INCONSISTENT_TOPIC_ID when the log has another id."""
        if self.topic_id is None:
            with Guarded(self):
                write_partition_metadata(self.disk, f"{self.directory}/{PARTITION_METADATA}", topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"The log of {self.name} belongs to topic id {self.topic_id}, not {topic_id}")

    def assign_epoch_start(self, leader_epoch: int, start_offset: int) -> None:
        """Record where a new leader's epoch begins. The file is written when the first records of the epoch are flushed."""
        self.leader_epochs.assign(leader_epoch, start_offset, flush=False)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch <= `epoch`; (-1, -1) when unknown (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- rolling and flushing ----------------------------------------------------------------------------------------------------

    def roll(self, at_offset: int | None = None) -> Segment:
        """Begin a new segment at the log end (or at `at_offset` beyond it). An empty active segment that begins there stays."""
        with Guarded(self):
            return roll(self, self.log_end_offset if at_offset is None else at_offset)

    @property
    def checkpointed_recovery_point(self) -> int:
        """Offset for recovery-point-offset-checkpoint: below the recovery point while indexes of rolled segments are not durable."""
        return self.recovery_point if self.closed else self.durability.checkpointed_recovery_point(self.log_end_offset)

    @property
    def flush_due(self) -> bool:
        """Return whether the number of records that are not durable has reached flush.messages."""
        return self.log_end_offset - self.durability.recovery_point >= self.config.flush_messages

    def needs_flush(self, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms requires a flush now."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return self.flush_due or now_ms - self.durability.last_flush_ms >= self.config.flush_ms

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """Return the fsyncs that make everything below `up_to` (default: the log end) durable; None when all of it is durable.

        Raises KafkaError KAFKA_STORAGE_ERROR when a flush is due and the log is closed or its directory offline.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if self.durability.covers(end):
            return None
        if self.closed:
            raise self.gone()
        with Guarded(self):
            return self.durability.plan(end, self.log_end_offset, closing=False)

    def finish_flush(self, flush: Flush) -> None:
        """Record a flush that ran without error, as `Durability.finish`."""
        self.durability.finish(flush, self.clock.time_ms())

    def flush(self, up_to: int | None = None) -> None:
        """Begin, run and finish a flush on this thread. A failure takes the directory offline, and the log is never flushed again."""
        with Guarded(self):
            flush = self.begin_flush(up_to)
            if flush is not None:
                self._run_flush(flush)

    def _run_flush(self, flush: Flush) -> None:
        try:
            flush.run(self.disk)
        except OSError:
            self.durability.give_back(flush)
            raise
        self.finish_flush(flush)

    def gone(self) -> KafkaError:
        """Return the error for callers that still hold a log that was closed, deleted or went offline with its directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} is closed")

    def failed(self, error: OSError, *, changing: bool = False) -> KafkaError:
        """Report the directory as failed and return the error to answer with.

        A missing descriptor does not fail the directory, unless the operation is `changing` the log, which then cannot go on.
        """
        if changing and out_of_descriptors(error):
            error = OSError(errno.EIO, f"{error.strerror} during a change", error.filename)
        if self.options.on_io_error is not None:
            self.options.on_io_error(self, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} failed: {error}")

    # -- appending ---------------------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        *,
        origin: AppendOrigin = _CLIENT,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Validate one record batch, assign its offsets and write it; an incomplete batch behind it is left out.

        `transaction_version` is the version of a marker's transaction (0 for a coordinator that does not send one).

        Raises KafkaError with Kafka's code for a refused batch, of which nothing is written, and KAFKA_STORAGE_ERROR when the disk fails.
        More than one batch is INVALID_RECORD for any origin (LogValidator of Kafka, for batches of version 2).
        """
        return append_batch(self, records, leader_epoch, origin, verification_guard, transaction_version)

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """Write a leader's batches with their offsets and epochs.

        An incomplete batch at the end is left out, and so are all batches from the first one with an epoch above `leader_epoch` on
        (KAFKA-18723).

        Raises KafkaError CORRUPT_MESSAGE for a wrong CRC (no batch of the call is written then), and UnexpectedAppendOffsetError when the
        first offset lies below the log end offset.
        """
        return append_given(self, records, leader_epoch, exact=False)

    def append_raft(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """Write a Raft leader's own batches, which carry offsets and epochs already. The first must begin exactly at the log end offset.

        Nothing is flushed: the leader flushes before it counts its own vote for the offset.
        """
        return append_given(self, records, leader_epoch, exact=True)

    def start_verification(self, producer_id: int, sequence: int, epoch: int, *, bumps_epoch: bool = False) -> VerificationGuard | None:
        """Return the KIP-890 guard to hand to `append_as_leader` after the coordinator confirmed; None when no guard is needed."""
        return self.producer_state.start_verification(producer_id, sequence, epoch, self.clock.time_ms(), bumps_epoch=bumps_epoch)

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, start_offset: int, *, max_bytes: int, max_offset: int, min_one_message: bool) -> LogRead:
        """Return batches from the one that contains `start_offset` on, at most `max_bytes`, none at or above `max_offset`.

        The last batch may be incomplete; with `min_one_message` the first batch is whole, whatever its size. Reads from one segment only.

        Raises KafkaError OFFSET_OUT_OF_RANGE below the log start or beyond the log end.
        """
        if start_offset > self.log_end_offset or start_offset < self.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {start_offset} of {self.name} was requested, its log has {self.log_start_offset} to {self.log_end_offset}",
            )
        if self.closed:
            raise self.gone()
        try:
            return read_log(self, start_offset, max_bytes, min(max_offset, self.log_end_offset), min_one_message)
        except OSError as error:
            raise self.failed(error) from error

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [start_offset, upper_bound), for read_committed fetches."""
        found: list[AbortedTransaction] = []
        with Guarded(self):
            for segment in self.segments[self.segments.index_at(start_offset) :]:
                part, complete = segment.txn_index.collect(start_offset, upper_bound)
                found += part
                if complete:
                    break
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """Return the first record, from the log start on, whose timestamp is >= `timestamp` (ms); None without one.

        Reads and may decompress one batch.
        """
        with Guarded(self):
            return find_offset_for_timestamp(self, timestamp)

    def offset_for_max_timestamp(self) -> TimestampedOffset | None:
        """Return the first record with the log's largest timestamp; None in a log without records."""
        with Guarded(self):
            return find_offset_for_max_timestamp(self)

    # -- changing ----------------------------------------------------------------------------------------------------------------

    @property
    def is_cut(self) -> bool:
        """Return whether the log was truncated and the truncation is not durable yet; the next write makes it durable first."""
        return self.durability.is_cut

    def truncate_to(self, offset: int, *, durable: bool = True) -> bool:
        """Truncate the log so that it ends at `offset`; return whether something was removed.

        The log ends earlier when `offset` lies inside a batch, which is removed as a whole. With `durable` the truncation is made durable
        here, on this thread; see `truncation` for the alternative. Raises ValueError below zero.
        """
        if offset < 0:
            raise ValueError(f"{self.name} cannot be truncated to {offset}")
        with Guarded(self, changing=True):
            return truncate(self, offset, durable=durable)

    def truncate_fully_and_start_at(
        self, offset: int, log_start_offset: int | None = None, *, state: StartingState | None = None, durable: bool = True
    ) -> None:
        """Remove all records; the next append gets `offset`.

        The log start becomes `offset` unless `log_start_offset` is given. `durable`: as in `truncate_to`. With `state` the log continues
        with the epochs and producers that the records before `offset` have left elsewhere. After a crash the log is a prefix of the old one
        (possibly empty), or the new one with its state.

        Raises StorageError, without any change, when `state` is not valid at `offset`.
        """
        if state is not None:
            state.producers_before(offset)
        with Guarded(self, changing=True):
            start_over_at(self, offset, log_start_offset, state, durable=durable)

    def remove_segment(self, index: int) -> None:
        """Remove a segment from the log; its files wait as `.deleted` for `take_deletions`."""
        self.durability.touch()
        segment = self.segments.remove(index)
        self.segments.deleted += self.producer_state.snapshots.retire(segment.base_offset)

    def replace_segments(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replace `old`, neighbouring inactive segments, by `new`, which begins at the base offset of the first of them.

        Their files have been exchanged; see `compaction.swap`, the only caller.
        """
        self.segments.replace(new, old)
        for segment in old[1:]:
            self.segments.deleted += self.producer_state.snapshots.retire(segment.base_offset)

    def delete_old_segments(self) -> int:
        """Apply retention by log start, size and time; return the number of removed segments. Their files wait for `take_deletions`."""
        with Guarded(self):
            return delete_old_segments(self, self.clock.time_ms())

    def rest(self) -> None:
        """Close the files of all inactive segments, and of the active one if nothing was appended since the last call.

        The files are opened again when they are needed. Slices in use stay readable.
        """
        idle, self._rested_end = self._rested_end == self.log_end_offset, self.log_end_offset
        self.segments.rest(active=idle)

    def take_deletions(self) -> list[str]:
        """Take the paths of `.deleted` files not handed out yet. The caller removes them after file.delete.delay.ms, in any thread."""
        deletions, self.segments.deleted = self.segments.deleted, []
        return deletions

    def rename_directory(self, name: str, *, durable: bool = True) -> None:
        """Rename the directory within its log directory. Descriptors stay open, slices stay readable.

        With `durable` False the caller fsyncs the log directory, off the loop.
        """
        with Guarded(self, changing=True):
            target = f"{self.parent_directory}/{name}"
            self.durability.void_plans()
            self.disk.rename(self.directory, target)
            if durable:
                self.disk.fsync_dir(self.parent_directory)
            self.durability.renamed(self.directory, target)
            self.directory = target
            self.segments.update_directory(target)
            self.leader_epochs.path = f"{target}/{LEADER_EPOCH_CHECKPOINT}"
            self.producer_state.snapshots.directory = target

    def close(self, *, durable: bool = False) -> None:
        """Write a producer snapshot, complete the indexes and close the descriptors; with `durable` fsync all of it first. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self.durability.void_plans()
        with Guarded(self, changing=True):
            changed = not self.durability.is_untouched(self.log_end_offset) or self.active.is_preallocated
            if changed:
                self.producer_state.take_snapshot()
                self.active.become_inactive()
            if durable and (changed or self.durability.owes_names()):
                self._run_flush(self.durability.plan(self.log_end_offset, self.log_end_offset, closing=True))
            self.segments.close_handles()

    def close_handles(self) -> None:
        """Close descriptors without writing anything, when the directory failed or is being deleted."""
        self.closed = True
        self.durability.void_plans()
        self.segments.close_handles()
