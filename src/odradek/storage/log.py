"""A partition's log: segments, offsets, producer state, leader epochs (Kafka's UnifiedLog and LocalLog).

The numbered way of an append as leader:
  1. read the 61-byte header, check the CRC and what else a client's batch must fulfil (`records.validation`);
  2. ask the producer state: a duplicate is answered with its first offset, a gap or an old epoch is refused;
  3. roll when the segment is full;
  4. write [base offset, length, leader epoch, rest] in one vectored write, the producer's bytes uncopied;
  5. only then move the log end offset, indexes, leader epochs and producer state.
A failed write leaves nothing behind that is visible: the log end offset has not moved, and the bytes are overwritten or cut by recovery.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iter_headers, read_header
from odradek.records.patch import patched_chunks
from odradek.records.validation import validate_append
from odradek.storage.append import (
    AppendInfo,
    AppendOrigin,
    ControlMarker,
    UnexpectedAppendOffsetError,
    check_follower_batch,
    read_marker,
    rules_of,
)
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.flushing import Flush, Guarded
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.names import FUTURE_DIR_SUFFIX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from odradek.storage.producer_state import CompletedTransaction, ProducerStateManager, VerificationGuard
from odradek.storage.reading import (
    LogRead,
    OffsetPosition,
    TimestampedOffset,
    find_offset_for_max_timestamp,
    find_offset_for_timestamp,
    read_log,
)
from odradek.storage.recovery import rebuild_producer_state
from odradek.storage.retention import delete_old_segments
from odradek.storage.segment import Segment, SegmentLimits
from odradek.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

__all__ = ["AppendInfo", "AppendOrigin", "Flush", "Log", "LogRead", "OffsetPosition", "TimestampedOffset"]

_BOUNDARIES_KEPT = 512


class Log:
    """See the module's text. One thread only, except where the package says otherwise.

    Errors: KafkaError for what a client or leader did wrong; OSError from the disk, which the log manager turns into a failed
    directory (`on_io_error` is called first, then the error goes on as KAFKA_STORAGE_ERROR).
    """

    __slots__ = (
        "_boundaries",
        "_boundaries_before",
        "_clock",
        "_closed",
        "_deletions",
        "_disk",
        "_generation",
        "_jitter",
        "_limits",
        "_on_io_error",
        "_on_roll",
        "_on_truncated",
        "_rules",
        "_segment_bytes",
        "_segment_ms",
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
        self._generation = 0
        """Counts truncations: a flush that began before one proves nothing about what was written after it."""
        self._untouched_end = log_end_offset if recovery_point == log_end_offset else -1
        """The log end as it was loaded from a clean shutdown: a log that still ends there needs nothing at the next."""
        self._closed = False
        self.update_config(config)

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset}, {len(self.segments)} segments)"

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect with the next append, roll or retention check."""
        self.config = config
        self._rules = rules_of(config)
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms
        self._limits = SegmentLimits(config.index_interval_bytes, config.segment_index_bytes)
        for segment in self.segments:
            segment.update_limits(self._limits)

    # -- offsets -----------------------------------------------------------------------------------------------------------------

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
        bounded = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producer_state.on_high_watermark(bounded)
        return bounded

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
        """A new leader notes where its epoch begins."""
        with Guarded(self):
            self.leader_epochs.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch <= `epoch`; (-1, -1) when unknown (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- appending ---------------------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Validates, gives offsets and writes. A client sends one batch; other origins may send several.

        KafkaError with Kafka's code for what is refused (nothing is written then), KAFKA_STORAGE_ERROR when the disk fails.
        """
        if len(records) < HEADER_SIZE:
            if not records:
                return AppendInfo(-1, -1, self.log_start_offset)
            raise KafkaError(ErrorCode.INVALID_RECORD, f"The records appended to {self.name} hold no whole batch")
        header = read_header(records, 0)
        size = header.batch_length + LOG_OVERHEAD
        if size == len(records):
            return self._append_batch(records, header, leader_epoch, origin, verification_guard)
        batches = [(records[position : position + each.size], each) for position, each in iter_headers(records)]
        if not batches or (len(batches) > 1 and origin == AppendOrigin.CLIENT):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"Records appended to {self.name} must be exactly one record batch, not {len(batches)}"
            )
        infos = [self._append_batch(batch, each, leader_epoch, origin, verification_guard) for batch, each in batches]
        first, last = infos[0], infos[-1]
        return AppendInfo(
            first.first_offset,
            last.last_offset,
            self.log_start_offset,
            max_timestamp=max([info.max_timestamp for info in infos]),
            record_count=sum([info.record_count for info in infos]),
            size=sum([info.size for info in infos]),
            log_append_time_ms=last.log_append_time_ms,
            duplicate=first.duplicate,
        )

    def _append_batch(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, origin: AppendOrigin, guard: VerificationGuard | None
    ) -> AppendInfo:
        now_ms = self._clock.time_ms()
        rules = self._rules if origin != AppendOrigin.RAFT_LEADER else self._rules._replace(max_message_bytes=0x7FFFFFFF)
        valid = validate_append(batch, 0, header, rules, now_ms=now_ms, from_client=origin == AppendOrigin.CLIENT)
        batch, header, max_timestamp, _, _, _ = valid
        size = header.batch_length + LOG_OVERHEAD
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size} bytes does not fit into a segment of {self.name} (segment.bytes is {self._segment_bytes})",
            )
        marker: ControlMarker | None = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = self._check_marker(batch, header)
            else:
                duplicate = self._check_producer(header, origin, guard)
                if duplicate is not None:
                    return duplicate
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        self._write(patched_chunks(batch, base_offset, leader_epoch), size, base_offset, last_offset, max_timestamp, leader_epoch, now_ms)
        if header.producer_id >= 0:
            self._follow_producer(header, base_offset, max_timestamp, marker)
        self.producer_state.map_end_offset = last_offset + 1
        return AppendInfo(
            base_offset,
            last_offset,
            self.log_start_offset,
            max_timestamp=max_timestamp,
            record_count=header.record_count,
            size=size,
            log_append_time_ms=now_ms if rules.log_append_time else -1,
        )

    def _check_producer(self, header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None) -> AppendInfo | None:
        state = self.producer_state
        transactional = header.is_transactional
        if origin == AppendOrigin.CLIENT:
            duplicate = state.check_client(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    self.log_start_offset,
                    max_timestamp=duplicate.timestamp,
                    log_append_time_ms=duplicate.timestamp if self._rules.log_append_time else -1,
                    duplicate=True,
                )
        else:
            entry = state.producers.get(header.producer_id)
            if entry is not None:
                state.check_epoch(entry, header.producer_epoch)
        state.check_transaction(header.producer_id, transactional=transactional, guard=guard)
        return None

    def _check_marker(self, batch: memoryview, header: BatchHeader) -> ControlMarker | None:
        marker = read_marker(batch, 0, header)
        if marker is not None:
            self.producer_state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
        return marker

    def _follow_producer(self, header: BatchHeader, base_offset: int, max_timestamp: int, marker: ControlMarker | None) -> None:
        """Producer state and transaction index after a batch with a producer id was written."""
        state = self.producer_state
        if not header.is_control:
            state.apply_data(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                max_timestamp,
                transactional=header.is_transactional,
            )
        elif marker is not None:
            completed = state.apply_marker(
                header.producer_id, header.producer_epoch, marker.coordinator_epoch, base_offset, marker.timestamp, aborted=marker.aborted
            )
            if completed is not None:
                self._complete(self.active, completed)

    def _complete(self, segment: Segment, completed: CompletedTransaction) -> None:
        aborted = self.producer_state.complete(completed)
        if aborted is not None:
            with Guarded(self):
                segment.txn_index.append(aborted)

    def _write(
        self,
        chunks: Sequence[bytes | bytearray | memoryview],
        size: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """One batch to the end of the log, rolling before it where needed; moves the log end offset."""
        if self._closed:
            raise self._gone()
        try:
            segment = self.active
            if segment.should_roll(size, last_offset, max_timestamp, now_ms, self._segment_bytes, self._segment_ms):
                segment = self._roll(base_offset)
            if leader_epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(leader_epoch, base_offset)
            position = segment.size
            segment.file.pwritev(chunks, position)
            segment.note_batch(position, size, last_offset, max_timestamp)
        except OSError as error:
            raise self.failed(error) from error
        boundaries = self._boundaries
        if len(boundaries) >= _BOUNDARIES_KEPT:
            self._boundaries_before = boundaries
            boundaries = self._boundaries = {}
        boundaries[base_offset] = position
        self.log_end_offset = last_offset + 1

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """Writes what the leader sent, offsets and epochs as they are. A batch cut off at the end is left out, and so is everything
        from the first batch with an epoch above `leader_epoch` (KAFKA-18723).

        KafkaError CORRUPT_MESSAGE for a wrong CRC (what precedes it in the same call is not written either),
        UnexpectedAppendOffsetError when the first offset lies below the log end offset.
        """
        return self._append_given(records, leader_epoch, exact=False)

    def append_raft(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """A Raft leader's own batches, which carry offsets and epochs already: the first must begin exactly at the log end offset.

        Nothing is flushed: the leader flushes before it counts its own vote for the offset.
        """
        return self._append_given(records, leader_epoch, exact=True)

    def _append_given(self, records: memoryview, leader_epoch: int, *, exact: bool) -> AppendInfo:
        batches: list[tuple[memoryview, BatchHeader]] = []
        expected = self.log_end_offset
        for position, header in iter_headers(records):
            if header.partition_leader_epoch > leader_epoch:
                break
            check_follower_batch(records, position, header, self.name)
            if header.base_offset < expected or (exact and header.base_offset != expected):
                raise UnexpectedAppendOffsetError(
                    f"Offset {header.base_offset} was appended to {self.name} where {expected} comes next",
                    header.base_offset,
                    header.last_offset,
                )
            expected = header.next_offset
            batches.append((records[position : position + header.size], header))
        if not batches:
            return AppendInfo(-1, -1, self.log_start_offset)
        now_ms = self._clock.time_ms()
        total = count = 0
        largest = -1
        for batch, header in batches:
            size = header.batch_length + LOG_OVERHEAD
            self._write((batch,), size, header.base_offset, header.last_offset, header.max_timestamp, header.partition_leader_epoch, now_ms)
            if header.producer_id >= 0:
                marker = read_marker(batch, 0, header) if header.is_control else None
                self._follow_producer(header, header.base_offset, header.max_timestamp, marker)
            self.producer_state.map_end_offset = header.next_offset
            total += size
            count += header.record_count
            largest = max(largest, header.max_timestamp)
        first = batches[0][1].base_offset
        return AppendInfo(first, self.log_end_offset - 1, self.log_start_offset, max_timestamp=largest, record_count=count, size=total)

    def start_verification(self, producer_id: int, sequence: int, epoch: int) -> VerificationGuard | None:
        """The KIP-890 guard to hand to `append_as_leader` after the coordinator confirmed; None when none is needed."""
        return self.producer_state.start_verification(producer_id, sequence, epoch, self._clock.time_ms())

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
        active.become_inactive()
        # Its indexes are not durable yet, so that it must not lie below the recovery point before the next flush.
        self.recovery_point = min(self.recovery_point, active.base_offset)
        segment = self._new_segment(base_offset)
        self._add(segment)
        # The snapshot at a segment's base lets recovery begin right there.
        self.producer_state.map_end_offset = base_offset
        unsynced = self.producer_state.take_snapshot(sync=False)
        if unsynced is not None:
            self._unsynced_snapshots.append(unsynced)
        if self._on_roll is not None:
            self._on_roll(self)
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment.create(self._disk, self.directory, base_offset, self._limits, self._clock.time_ms())
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
        """What recovery-point-offset-checkpoint may say.

        A segment's indexes become durable only after it is rolled, so that the point must stay inside the active segment until then: at
        its very end a roll followed by a crash would put the segment below the recovery point.
        """
        point = self.recovery_point
        return point - 1 if not self._closed and point == self.log_end_offset and point > self.active.base_offset else point

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush now."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return self.unflushed_messages >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """What must be fsynced so that everything below `up_to` (the log end) is durable; None when it is."""
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if end <= self.recovery_point and not self._unsynced_snapshots:
            return None
        return self._plan_flush(end, closing=False)

    def _plan_flush(self, end: int, *, closing: bool) -> Flush:
        snapshots, self._unsynced_snapshots = self._unsynced_snapshots, []
        flush = Flush(end, self._generation, snapshots)
        for segment in self.segments[self.segment_at(self.recovery_point) :]:
            # The indexes of the active segment need no fsync: recovery rebuilds those of the segment that holds the recovery point.
            flush.add(segment, indexes=closing or segment is not self.active)
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """The flush ran without error: the recovery point moves, unless the log was truncated meanwhile."""
        flush.release(durable=True)
        if flush.generation == self._generation:
            self.recovery_point = max(self.recovery_point, flush.up_to)
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

    # -- reading -----------------------------------------------------------------------------------------------------------------

    def read(self, start_offset: int, *, max_bytes: int, max_offset: int, min_one_message: bool) -> LogRead:
        """Whole batches from the one that contains `start_offset`, at most `max_bytes` (the last may be cut), none at or above
        `max_offset`; with `min_one_message` the first batch comes whole, however large. One segment at a time.

        KafkaError OFFSET_OUT_OF_RANGE below the log start or beyond the log end.
        """
        if start_offset > self.log_end_offset or start_offset < self.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {start_offset} of {self.name} was asked for, there are {self.log_start_offset} to {self.log_end_offset}",
            )
        if self._closed:
            raise self._gone()
        try:
            return read_log(self, start_offset, max_bytes, min(max_offset, self.log_end_offset), min_one_message)
        except OSError as error:
            raise self.failed(error) from error

    def position_of(self, offset: int) -> OffsetPosition:
        """Where a batch that contains `offset` begins; OFFSET_OUT_OF_RANGE outside the log."""
        return self.read(offset, max_bytes=0, max_offset=offset, min_one_message=False).start

    def known_position(self, offset: int) -> int | None:
        """Position in the active segment of a batch that began at `offset`, from memory; None when forgotten."""
        if offset == self.log_end_offset:
            return self.active.size
        position = self._boundaries.get(offset)
        return self._boundaries_before.get(offset) if position is None else position

    def segment_at(self, offset: int) -> int:
        """Index of the segment that holds `offset` (the last one whose base is not above it; the first at least)."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [start_offset, upper_bound), for read_committed fetches."""
        found: list[AbortedTransaction] = []
        with Guarded(self):
            for segment in self.segments[self.segment_at(start_offset) :]:
                part, complete = segment.txn_index.collect(start_offset, upper_bound)
                found += part
                if complete:
                    break
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record, from the log start on, whose timestamp is >= `timestamp` (ms); None when there is none.

        Reads and may decompress one batch.
        """
        with Guarded(self):
            return find_offset_for_timestamp(self, timestamp)

    def offset_for_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that carries the log's largest timestamp; None in a log without records."""
        with Guarded(self):
            return find_offset_for_max_timestamp(self)

    # -- changing ----------------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cuts the log so that it ends at `offset`; True when something was removed. ValueError below zero.

        Ends earlier when `offset` lies inside a batch: the whole batch goes.
        """
        if offset < 0:
            raise ValueError(f"{self.name} cannot be truncated to {offset}")
        with Guarded(self):
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            self._generation += 1
            self._forget_boundaries()
            if self.bases[0] > offset:
                self._start_over(offset)
            else:
                self._truncate(offset)
            self._truncated()
            return True

    def _truncated(self) -> None:
        """The stored recovery point must not stay above the end: what is written from now on up to it would count as flushed."""
        if self._on_truncated is not None:
            self._on_truncated(self)

    def _truncate(self, offset: int) -> None:
        while self.bases[-1] > offset:
            self._remove(len(self.segments) - 1)
        self.active = self.segments[-1]
        wanted = offset
        offset = self.active.truncate_to(offset, self._clock.time_ms())
        if offset < min(wanted, self.log_start_offset):
            # The batch that contains the log start went as a whole: nothing readable is left, and the log does not end below its start.
            self._start_over(min(wanted, self.log_start_offset), keep_epochs=True)
            return
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.leader_epochs.truncate_from_end(offset)
        self.log_start_offset = min(offset, self.log_start_offset)
        rebuild_producer_state(self.producer_state, self.segments, self.log_start_offset, offset, self._clock.time_ms(), clean=False)
        if self.high_watermark >= offset:
            self.update_high_watermark(offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the next append gets `offset`. The log start becomes `offset` unless given."""
        with Guarded(self):
            self._generation += 1
            self._start_over(offset)
            if log_start_offset is not None:
                self.log_start_offset = log_start_offset
                self.high_watermark = max(log_start_offset, min(self.high_watermark, offset))
            self._truncated()

    def _start_over(self, offset: int, *, keep_epochs: bool = False) -> None:
        self._forget_boundaries()
        while self.segments:
            self._remove(len(self.segments) - 1)
        self._add(self._new_segment(offset))
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        if keep_epochs:
            self.leader_epochs.truncate_from_end(offset)
        else:
            self.leader_epochs.clear()
        self.producer_state.truncate_fully(offset)
        self.high_watermark = offset

    def _remove(self, index: int) -> None:
        """Takes a segment out of the log; its files wait as `.deleted` for `take_deletions`."""
        segment = self.segments.pop(index)
        del self.bases[index]
        self._deletions += segment.mark_deleted()
        self.producer_state.delete_snapshot(segment.base_offset)

    def delete_old_segments(self) -> int:
        """Retention by log start, size and time; how many segments went. Their files wait for `take_deletions`."""
        with Guarded(self):
            return delete_old_segments(self, self._clock.time_ms())

    def remove_oldest(self, count: int) -> None:
        """Drops the `count` oldest segments, rolling first when that is all of them, and raises the log start accordingly."""
        if count == len(self.segments) and self.active.size:
            self._roll(self.log_end_offset)
        count = min(count, len(self.segments) - 1)
        if count > 0:
            self.maybe_increment_log_start_offset(self.bases[count])
            for _ in range(count):
                self._remove(0)

    def take_deletions(self) -> list[str]:
        """Paths of `.deleted` files not handed out yet; the caller removes them after file.delete.delay.ms, in any thread."""
        deletions, self._deletions = self._deletions, []
        return deletions

    def remove_expired_producers(self) -> None:
        self.producer_state.remove_expired(self._clock.time_ms())

    def take_producer_snapshot(self) -> None:
        """As at a clean shutdown: the next start need not scan the log."""
        with Guarded(self):
            self.producer_state.take_snapshot()

    def rename_directory(self, name: str) -> None:
        """Renames the directory within its log directory; descriptors stay open, slices stay readable."""
        with Guarded(self):
            target = f"{self.parent_directory}/{name}"
            self._disk.rename(self.directory, target)
            self._disk.fsync_dir(self.parent_directory)
            self.directory = target
            for segment in self.segments:
                segment.update_directory(target)
            self.leader_epochs.path = f"{target}/{LEADER_EPOCH_CHECKPOINT}"
            self.producer_state.directory = target

    def close(self, *, durable: bool = False) -> None:
        """Snapshot of the producer state, complete indexes, descriptors closed; with `durable` all of it fsynced first. Idempotent."""
        if self._closed:
            return
        self._closed = True
        with Guarded(self):
            if self.log_end_offset != self._untouched_end or self._generation:
                self.producer_state.take_snapshot()
                self.active.become_inactive()
                if durable:
                    flush = self._plan_flush(self.log_end_offset, closing=True)
                    try:
                        flush.run(self._disk)
                    except OSError:
                        flush.release()
                        raise
                    self.finish_flush(flush)
            for segment in self.segments:
                segment.close_handles()

    def close_handles(self) -> None:
        """Closes descriptors and writes nothing: the directory failed or is being deleted."""
        self._closed = True
        for segment in self.segments:
            segment.close_handles()

    def _gone(self) -> KafkaError:
        """For callers that still hold a log which was closed, deleted or went offline with its directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} is closed")

    def failed(self, error: OSError) -> KafkaError:
        """Reports the directory as failed and gives the error to answer with."""
        if self._on_io_error is not None:
            self._on_io_error(self, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} failed: {error}")
