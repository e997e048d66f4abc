"""What a log is made of: its segments, its offsets, rolling, and flushing honestly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.append import (
    rules_of,
)
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.flushing import Flush, Guarded
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.names import FUTURE_DIR_SUFFIX, PARTITION_METADATA
from odradek.storage.producer_state import ProducerStateManager
from odradek.storage.reading import (
    OffsetPosition,
)
from odradek.storage.segment import Segment, SegmentLimits

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig
    from odradek.storage.log import Log


class LogBase:
    """The part of a log that appending, reading and truncating stand on; only `Log` is ever made."""

    __slots__ = (
        "_boundaries",
        "_boundaries_before",
        "_clock",
        "_closed",
        "_deletions",
        "_disk",
        "_generation",
        "_index_point",
        "_jitter",
        "_limits",
        "_on_io_error",
        "_on_roll",
        "_on_truncated",
        "_rested_end",
        "_rules",
        "_segment_bytes",
        "_segment_ms",
        "_unsynced_files",
        "_unsynced_names",
        "_unsynced_snapshots",
        "_untouched_end",
        "active",
        "bases",
        "config",
        "directory",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "producer_state",
        "recovery_point",
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
        clean: bool = False,
        jitter: Callable[[int], int] = lambda limit: 0,
        on_io_error: Callable[[Log, OSError], None] | None = None,
        on_roll: Callable[[Log], None] | None = None,
        on_truncated: Callable[[Log], None] | None = None,
    ) -> None:
        """Made by `loader.load_log`; `segments` is never empty. `jitter(limit)` gives 0 <= n < limit for segment.jitter.ms."""
        self._disk = disk
        self._clock = clock
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.name = str(topic_partition)
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.high_watermark = log_start_offset
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.last_flush_ms = clock.time_ms()
        self._jitter = jitter
        self._on_io_error = on_io_error
        self._on_roll = on_roll
        self._on_truncated = on_truncated
        self._boundaries: dict[int, int] = {}
        """Offset -> position of batches written lately to the active segment: what readers at the tail ask for."""
        self._boundaries_before: dict[int, int] = {}
        self._deletions: list[str] = []
        self._unsynced_snapshots: list[str] = []
        self._unsynced_files: list[str] = []
        self._unsynced_names: list[str] = []
        self._generation = 0
        self._index_point = segments[-1].base_offset if recovery_point == log_end_offset else recovery_point
        """Segments that end at or below it have durable indexes."""
        self._untouched_end = log_end_offset if clean else -1
        """The log end as it was loaded from a clean shutdown: a log that still ends there needs nothing at the next. Recovery, rolls and
        removals leave files and names that are not durable, without moving the end.
        """
        self._closed = False
        self._rested_end = -1
        self.update_config(config)

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset}, {len(self.segments)} segments)"

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect with the next append, roll or retention check."""
        self.config = config
        self._rules = rules_of(config)
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.max_segment_ms
        self._limits = SegmentLimits(config.index_interval_bytes, config.segment_index_bytes)
        for segment in self.segments:
            segment.update_limits(self._limits)

    # -- offsets -----------------------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Rises with whatever makes a plan of long work worthless that was made before it: truncation, closing, another directory name,
        a failed directory. Appends, rolls and retention leave it alone: what they change shows in `segments`.
        """
        return self._generation

    @property
    def closed(self) -> bool:
        """Closed, deleted or gone with its directory: nothing is written to it any more."""
        return self._closed

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum([segment.size for segment in self.segments])

    @property
    def is_future(self) -> bool:
        return self.directory.endswith(FUTURE_DIR_SUFFIX)

    @property
    def parent_directory(self) -> str:
        return self.directory.rpartition("/")[0]

    @property
    def end_position(self) -> OffsetPosition:
        active = self.active
        return OffsetPosition(self.log_end_offset, active.base_offset, active.size)

    @property
    def last_stable_offset(self) -> int:
        """Up to here read_committed consumers may read: the first open or unreplicated transaction, at most the high watermark."""
        unstable = self.producer_state.first_unstable_offset
        return self.high_watermark if unstable is None or unstable > self.high_watermark else max(unstable, self.log_start_offset)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last entry of the epoch cache, -1 when there is none."""
        return self.leader_epochs.latest_epoch

    def update_high_watermark(self, offset: int) -> int:
        """Sets it, kept within log start and end, and returns what it became. It may go back: a new leader may know less."""
        bounded = offset if self.log_start_offset <= offset <= self.log_end_offset else self._within(offset)
        self.high_watermark = bounded
        self.producer_state.on_high_watermark(bounded)
        return bounded

    def _within(self, offset: int) -> int:
        return min(max(offset, self.log_start_offset), self.log_end_offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raises the log start, for retention and DeleteRecords; True when it moved.

        KafkaError OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The log start of {self.name} cannot be raised to {offset}, beyond its high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        with Guarded(self):
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producer_state.on_log_start(offset)
        return True

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Writes partition.metadata; INCONSISTENT_TOPIC_ID when the log has another id."""
        if self.topic_id is None:
            with Guarded(self):
                write_partition_metadata(self._disk, f"{self.directory}/{PARTITION_METADATA}", topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"The log of {self.name} belongs to topic id {self.topic_id}, not {topic_id}")

    def assign_epoch_start(self, leader_epoch: int, start_offset: int) -> None:
        """A new leader notes where its epoch begins. The file is written when the first records of the epoch are flushed."""
        self.leader_epochs.assign(leader_epoch, start_offset, flush=False)

    @property
    def unsynced_paths(self) -> tuple[list[str], list[str]]:
        """Files that are not durable yet, and names; what was owed before the first flush."""
        return list(self._unsynced_files), list(self._unsynced_names)

    def owe_fsync(self, path: str, *, name_only: bool = False) -> None:
        """A file that this log needs (or with `name_only` just its name, or a directory's) is not durable yet: the next flush makes it so,
        before its records count as durable.
        """
        self._unsynced_names.append(path)
        if not name_only:
            self._unsynced_files.append(path)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch <= `epoch`; (-1, -1) when unknown (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- rolling and flushing ----------------------------------------------------------------------------------------------------

    def roll(self, at_offset: int | None = None) -> Segment:
        """Begins a new segment at the log end (or at `at_offset` beyond it); an empty active segment that begins there stays."""
        with Guarded(self):
            return self._roll(self.log_end_offset if at_offset is None else at_offset)

    def _roll(self, base_offset: int) -> Segment:
        active = self.active
        base_offset = max(base_offset, self.log_end_offset)
        if active.base_offset == base_offset:
            if active.size == 0 and not active.is_index_full:
                return active
            if active.size:
                raise StorageError(f"{self.name} cannot roll at {base_offset}, the base offset of its active segment")
            active.reset_indexes()
            return active
        self._untouched_end = -1
        active.become_inactive()
        segment = self._new_segment(base_offset)
        self._add(segment)
        # The snapshot at a segment's base lets recovery begin right there.
        self.producer_state.map_end_offset = base_offset
        unsynced = self.producer_state.take_snapshot(sync=False)
        if unsynced is not None:
            self._unsynced_snapshots.append(unsynced)
        if self._on_roll is not None:
            self._on_roll(cast("Log", self))
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        preallocate = self._segment_bytes if self.config.preallocate else 0
        now_ms = self._clock.time_ms()
        segment = Segment.create(self._disk, self.directory, base_offset, self._limits, now_ms, preallocate=preallocate)
        segment.roll_jitter_ms = self._jitter(min(self.config.segment_jitter_ms, self.config.segment_ms))
        return segment

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        self._forget_boundaries()

    def _forget_boundaries(self) -> None:
        self._boundaries = {}
        self._boundaries_before = {}

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    @property
    def checkpointed_recovery_point(self) -> int:
        """What recovery-point-offset-checkpoint may say: at most the last offset of the first segment whose indexes are not durable,
        because what lies wholly below the point is not looked at by recovery. They become durable with the flush after the roll.
        """
        if self._closed:
            return self.recovery_point
        following = self.segment_at(self._index_point) + 1
        base = self.bases[following - 1]
        end = self.bases[following] if following < len(self.bases) else self.log_end_offset
        return min(self.recovery_point, max(end - 1, base))

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush now."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return self.unflushed_messages >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """What must be fsynced so that everything below `up_to` (the log end) is durable; None when it is.

        KAFKA_STORAGE_ERROR when the log is closed, or its directory went offline, before that.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if end <= self.recovery_point and not self._unsynced_snapshots and self._index_point >= self.active.base_offset:
            return None
        if self._closed:
            raise self._gone()
        with Guarded(self):
            return self._plan_flush(end, closing=False)

    def _plan_flush(self, end: int, *, closing: bool) -> Flush:
        snapshots, self._unsynced_snapshots = self._unsynced_snapshots, []
        flush = Flush(end, self._generation, snapshots, self.active.base_offset)
        files, self._unsynced_files = self._unsynced_files, []
        names, self._unsynced_names = self._unsynced_names, []
        flush.add_paths(files, names)
        if self.leader_epochs.is_behind(self.log_end_offset):
            flush.add_epochs(self.leader_epochs.begin_write())
        for segment in self.segments[self.segment_at(min(self.recovery_point, self._index_point)) :]:
            # The indexes of the active segment need no fsync: recovery rebuilds those of the segment that holds the recovery point.
            flush.add(segment, indexes=closing or segment is not self.active)
        if closing:
            # A transaction index or a snapshot may have been made since the directory was last made durable.
            flush.add_paths([], [f"{self.directory}/{PARTITION_METADATA}"])
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """The flush ran without error: the recovery point moves, unless the log was truncated meanwhile."""
        holds = flush.generation == self._generation
        flush.release(durable=holds)
        if flush.epochs is not None:
            self.leader_epochs.finish_write(flush.epochs)
        if not holds:
            # In case that the directory got another name: what was not found under the old one is owed still.
            self.owe_fsync(f"{self.directory}/{PARTITION_METADATA}")
        else:
            self.recovery_point = max(self.recovery_point, flush.up_to)
            self._index_point = max(self._index_point, flush.index_point)
            self.last_flush_ms = self._clock.time_ms()

    def flush(self, up_to: int | None = None) -> None:
        """Both halves in one, on this thread. A failure takes the directory offline: nothing is ever flushed again."""
        with Guarded(self):
            flush = self.begin_flush(up_to)
            if flush is None:
                return
            try:
                flush.run(self._disk)
            except OSError:
                flush.release()
                raise
            self.finish_flush(flush)

    def known_position(self, offset: int) -> int | None:
        """Position in the active segment of a batch that began at `offset`, from memory; None when forgotten."""
        if offset == self.log_end_offset:
            return self.active.size
        position = self._boundaries.get(offset)
        return self._boundaries_before.get(offset) if position is None else position

    def segment_at(self, offset: int) -> int:
        """Index of the segment that holds `offset` (the last one whose base is not above it; the first at least)."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def _gone(self) -> KafkaError:
        """For callers that still hold a log which was closed, deleted or went offline with its directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} is closed")

    def failed(self, error: OSError) -> KafkaError:
        """Reports the directory as failed and gives the error to answer with."""
        if self._on_io_error is not None:
            self._on_io_error(cast("Log", self), error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} failed: {error}")
