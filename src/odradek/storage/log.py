"""Log of a partition: append, read, truncate (Kafka's UnifiedLog and LocalLog).

An append as leader takes these steps:

  1. read the 61-byte header, check the CRC and the other requirements of a client's batch (`records.validation`);
  2. ask the producer state: a duplicate is answered with its first offset, a gap or an old epoch is refused;
  3. roll when the segment is full;
  4. write [base offset, length, leader epoch, rest] in one vectored write, without copying the producer's bytes;
  5. only then move the log end offset, indexes, leader epochs and producer state.

A failed write leaves nothing visible: the log end offset has not moved, and the next append overwrites the bytes or recovery truncates
them.

A log consists of `segments` (log_segments.py), `leader_epochs`, `producer_state` and a `Durability` (flushing.py), each of which keeps a
part of the state. The log itself keeps the offsets.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iter_headers, read_header
from odradek.records.patch import patched_chunks
from odradek.records.scan import Scan, part_of
from odradek.records.validation import validate_append
from odradek.storage.append import (
    AppendInfo,
    AppendOrigin,
    ControlMarker,
    read_marker,
    rules_of,
)
from odradek.storage.assigned_offsets import check_given, read_given
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.flushing import Durability, Flush, Guarded
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.log_segments import LogSegments
from odradek.storage.names import FUTURE_DIR_SUFFIX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from odradek.storage.options import LogOptions
from odradek.storage.producer_state import BatchMetadata, ProducerStateManager, VerificationGuard
from odradek.storage.reading import (
    LogRead,
    OffsetPosition,
    TimestampedOffset,
    find_offset_for_max_timestamp,
    find_offset_for_timestamp,
    read_log,
)
from odradek.storage.recovery import follow_batches, may_hold_markers, rebuild_producer_state, recent_batches
from odradek.storage.retention import delete_old_segments
from odradek.storage.segment import Segment
from odradek.storage.starting_state import StartingState
from odradek.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

__all__ = ["AppendInfo", "AppendOrigin", "Flush", "Log", "LogRead", "OffsetPosition", "TimestampedOffset"]

_CLIENT, _RAFT_LEADER = AppendOrigin.CLIENT, AppendOrigin.RAFT_LEADER
"""Constants, because access to the members of an enum is slow."""


class Log:
    """Log of one partition; see the module's text. For one thread only, except where the package's docstring says otherwise.

    Raises KafkaError for errors of a client or leader. An OSError from the disk makes the log manager mark the directory as failed:
    `on_io_error` is called first, then the log raises KAFKA_STORAGE_ERROR.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_cut",
        "_deletions",
        "_disk",
        "_durability",
        "_options",
        "_rested_end",
        "_rules",
        "config",
        "directory",
        "high_watermark",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "producer_state",
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
        self._disk = disk
        self._clock = clock
        self._options = options
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.name = str(topic_partition)
        self.config = config
        self._rules = rules_of(config)
        self.segments = LogSegments(disk, clock, directory, config, segments, options.jitter)
        self._durability = Durability(recovery_point, log_end_offset, segments[-1].base_offset, clock.time_ms(), clean=clean)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self._deletions: list[str] = []
        self._closed = False
        self._cut = False
        """True if the log was truncated and the truncation is not durable yet."""
        self._rested_end = -1

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset}, {len(self.segments)} segments)"

    def update_config(self, config: TopicConfig) -> None:
        """Set the configuration for the next append, roll or retention check."""
        self.config = config
        self._rules = rules_of(config)
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
        return self._durability.generation

    @property
    def closed(self) -> bool:
        """Return whether the log is closed, deleted or offline with its directory; nothing is written to it any more."""
        return self._closed

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
        return self._durability.recovery_point

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
        bounded = offset if self.log_start_offset <= offset <= self.log_end_offset else self._within(offset)
        self.high_watermark = bounded
        self.producer_state.on_high_watermark(bounded)
        return bounded

    def _within(self, offset: int) -> int:
        return min(max(offset, self.log_start_offset), self.log_end_offset)

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
                write_partition_metadata(self._disk, f"{self.directory}/{PARTITION_METADATA}", topic_id)
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
            return self._roll(self.log_end_offset if at_offset is None else at_offset)

    def _roll(self, base_offset: int) -> Segment:
        if self._cut:
            self._harden()
        active = self.segments.active
        base_offset = max(base_offset, self.log_end_offset)
        if active.base_offset == base_offset:
            if active.size == 0 and not active.is_index_full:
                return active
            if active.size:
                raise StorageError(f"{self.name} cannot roll at {base_offset}, the base offset of its active segment")
            active.reset_indexes()
            return active
        self._durability.touch()
        active.become_inactive()
        segment = self.segments.begin(base_offset)
        # The snapshot at a segment's base lets recovery begin there.
        self.producer_state.map_end_offset = base_offset
        try:
            unsynced = self.producer_state.take_snapshot(sync=False)
        except OSError as error:
            if not out_of_descriptors(error):
                raise
            unsynced = None  # recovery then begins at the previous snapshot
        if unsynced is not None:
            self._durability.owe_snapshot(unsynced)
        if self._options.on_roll is not None:
            self._options.on_roll(self)
        return segment

    @property
    def checkpointed_recovery_point(self) -> int:
        """Offset for recovery-point-offset-checkpoint: below the recovery point while indexes of rolled segments are not durable."""
        if self._closed:
            return self.recovery_point
        return self._durability.checkpointed_recovery_point(self.segments, self.log_end_offset)

    @property
    def flush_due(self) -> bool:
        """Return whether the number of records that are not durable has reached flush.messages."""
        return self.log_end_offset - self._durability.recovery_point >= self.config.flush_messages

    def needs_flush(self, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms requires a flush now."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return self.flush_due or now_ms - self._durability.last_flush_ms >= self.config.flush_ms

    @property
    def unsynced_paths(self) -> tuple[list[str], list[str]]:
        """Files, and names, that are not durable yet, from before the first flush."""
        return self._durability.owed

    def owe_fsync(self, path: str, *, name_only: bool = False) -> None:
        """Add a file that this log needs to the next flush, which makes it durable before its records count as durable.

        With `name_only` only the directory entry of a file or a directory is added.
        """
        self._durability.owe(path, name_only=name_only)

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """Return the fsyncs that make everything below `up_to` (default: the log end) durable; None when all of it is durable.

        Raises KafkaError KAFKA_STORAGE_ERROR when a flush is due and the log is closed or its directory offline.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if not self._cut and self._durability.covers(end, self.segments.active.base_offset):
            return None
        if self._closed:
            raise self._gone()
        with Guarded(self):
            return self._plan_flush(end, closing=False)

    def _plan_flush(self, end: int, *, closing: bool) -> Flush:
        # Truncated epochs leave the file, too: in a compacted log recovery would keep them.
        behind = self.leader_epochs.dirty if self._cut else self.leader_epochs.is_behind(self.log_end_offset)
        epochs = self.leader_epochs.begin_write() if behind else None
        flush = self._durability.plan(end, self.segments, epochs, closing=closing)
        if closing:
            # A transaction index or a snapshot may have been made since the directory was last made durable.
            flush.add_paths([], [f"{self.directory}/{PARTITION_METADATA}"])
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """Record a flush that ran without error: the recovery point moves, unless the log was truncated since the flush began."""
        if not self._durability.finish(flush, self._clock.time_ms()):
            # If the directory was renamed, the flush may have missed files under the old name: they must be made durable again.
            self.owe_fsync(f"{self.directory}/{PARTITION_METADATA}")
        if flush.epochs is not None:
            self.leader_epochs.finish_write(flush.epochs)

    def flush(self, up_to: int | None = None) -> None:
        """Begin, run and finish a flush on this thread. A failure takes the directory offline, and the log is never flushed again."""
        with Guarded(self):
            flush = self.begin_flush(up_to)
            if flush is not None:
                self._run_flush(flush)

    def _run_flush(self, flush: Flush) -> None:
        try:
            flush.run(self._disk)
        except OSError:
            self.give_back(flush)
            raise
        self.finish_flush(flush)

    def give_back(self, flush: Flush) -> None:
        """Take back a flush that failed, so that the next flush includes its files, if the directory stays online."""
        self._durability.give_back(flush, self.directory)

    def _gone(self) -> KafkaError:
        """Return the error for callers that still hold a log that was closed, deleted or went offline with its directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} is closed")

    def write_again(self, start_offset: int) -> None:
        """Rewrite the batches from `start_offset` on in their place, before they are flushed.

        After a failed fsync Linux marks the pages as clean. They stay in memory, for the next process as well, and the next fsync succeeds
        without having written them.
        """
        first = self.segments.index_at(start_offset)
        for segment in self.segments[first:]:
            batch = segment.find(start_offset)
            if batch is not None:
                segment.write_again(batch.position)

    def failed(self, error: OSError, *, changing: bool = False) -> KafkaError:
        """Report the directory as failed and return the error to answer with.

        A missing descriptor does not fail the directory, unless the operation is `changing` the log, which then cannot go on.
        """
        if changing and out_of_descriptors(error):
            error = OSError(errno.EIO, f"{error.strerror} during a change", error.filename)
        if self._options.on_io_error is not None:
            self._options.on_io_error(self, error)
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
        if len(records) < HEADER_SIZE:
            if not records:
                return AppendInfo(-1, -1, self.log_start_offset)
            raise KafkaError(ErrorCode.INVALID_RECORD, f"The records appended to {self.name} contain no complete batch")
        header = read_header(records, 0)
        size = header.batch_length + LOG_OVERHEAD
        if size != len(records):
            batches = len(list(islice(iter_headers(records), 2)))
            if batches != 1:
                found = "more" if batches else "none"
                raise KafkaError(ErrorCode.INVALID_RECORD, f"Records appended to {self.name} must be exactly one record batch, not {found}")
            records = records[:size]
        return self._append_batch(records, header, leader_epoch, origin, verification_guard, transaction_version)

    def _append_batch(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        transaction_version: int,
    ) -> AppendInfo:
        now_ms = self._clock.time_ms()
        rules = self._rules if origin != _RAFT_LEADER else self._rules._replace(max_message_bytes=0x7FFFFFFF)
        valid = validate_append(batch, 0, header, rules, now_ms=now_ms, from_client=origin == _CLIENT)
        batch, header, max_timestamp, _, _, _ = valid
        size = header.batch_length + LOG_OVERHEAD
        if size > self.segments.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size} bytes does not fit into a segment of {self.name} (segment.bytes is {self.segments.segment_bytes})",
            )
        marker: ControlMarker | None = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = self._check_marker(batch, header, transaction_version)
            else:
                duplicate = self._check_producer(header, origin, guard)
                if duplicate is not None:
                    return duplicate
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        if header.base_offset == base_offset and header.partition_leader_epoch == leader_epoch:
            # A coordinator knew the offset at which its batch would be written.
            chunks: Sequence[memoryview | bytes] = (batch,)
        else:
            chunks = patched_chunks(batch, base_offset, leader_epoch)
        self._write(chunks, size, base_offset, last_offset, max_timestamp, leader_epoch, now_ms)
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
        if origin == _CLIENT:
            duplicate = self._check_sequence(header)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    self.log_start_offset,
                    max_timestamp=duplicate.timestamp,
                    # Regardless of message.timestamp.type, as in Kafka (UnifiedLog.append).
                    log_append_time_ms=duplicate.timestamp,
                    duplicate=True,
                )
        else:
            entry = state.producers.get(header.producer_id)
            if entry is not None:
                state.check_epoch(entry, header.producer_epoch)
        state.check_transaction(header.producer_id, header.producer_epoch, transactional=transactional, guard=guard)
        return None

    def _check_sequence(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the earlier batch that this one repeats, None when this one is next in sequence.

        After a restart the state knows only the last batch of a producer. A batch that seems out of order may then repeat an earlier one
        whose response was lost with the connection. The log is therefore searched, once per producer. (Kafka refuses such a batch, and its
        client writes it again under the next epoch.)

        Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER for any other batch.
        """
        state = self.producer_state
        asked = (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
        try:
            return state.check_client(*asked)
        except KafkaError as error:
            entry = state.producers.get(header.producer_id)
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or entry is None or not entry.restored:
                raise
            entry.complete_from(recent_batches(self.segments, header.producer_id, entry.epoch))
            return state.check_client(*asked)

    def _check_marker(self, batch: memoryview, header: BatchHeader, transaction_version: int) -> ControlMarker | None:
        marker = read_marker(batch, 0, header)
        if marker is not None:
            self.producer_state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch, transaction_version)
        return marker

    def _follow_producer(self, header: BatchHeader, base_offset: int, max_timestamp: int, marker: ControlMarker | None) -> None:
        """Update producer state and transaction index after a batch with a producer id was written."""
        aborted = self.producer_state.follow(header, base_offset, max_timestamp, marker)
        if aborted is not None:
            with Guarded(self, changing=True):
                self.segments.active.txn_index.append(aborted)

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
        """Write one batch to the end of the log, rolling before it where needed, and move the log end offset."""
        if self._closed:
            raise self._gone()
        segments = self.segments
        try:
            if self._cut:
                self._harden()
            segment = segments.active
            if segment.should_roll(size, last_offset, max_timestamp, now_ms, segments.segment_bytes, segments.segment_ms):
                segment = self._roll(base_offset)
            file = segment.file
            if leader_epoch > self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(leader_epoch, base_offset, flush=False)
            position = segment.size
            file.pwritev(chunks, position)
            segment.note_batch(position, size, last_offset, max_timestamp)
        except OSError as error:
            raise self.failed(error) from error
        segments.note_position(base_offset, position)
        self.log_end_offset = last_offset + 1

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """Write a leader's batches with their offsets and epochs.

        An incomplete batch at the end is left out, and so are all batches from the first one with an epoch above `leader_epoch` on
        (KAFKA-18723).

        Raises KafkaError CORRUPT_MESSAGE for a wrong CRC (no batch of the call is written then), and UnexpectedAppendOffsetError when the
        first offset lies below the log end offset.
        """
        return self._append_given(records, leader_epoch, exact=False)

    def append_raft(self, records: memoryview, leader_epoch: int) -> AppendInfo:
        """Write a Raft leader's own batches, which carry offsets and epochs already. The first must begin exactly at the log end offset.

        Nothing is flushed: the leader flushes before it counts its own vote for the offset.
        """
        return self._append_given(records, leader_epoch, exact=True)

    def _append_given(self, records: memoryview, leader_epoch: int, *, exact: bool) -> AppendInfo:
        if len(records) >= HEADER_SIZE and (header := read_header(records, 0)).size == len(records):
            return self._append_one_given(records, header, leader_epoch, exact=exact)
        given = read_given(records, self.log_end_offset, leader_epoch, self.name, exact=exact)
        if not given:
            return AppendInfo(-1, -1, self.log_start_offset)
        now_ms = self._clock.time_ms()
        for scan in given:
            written = self._write_given(records, scan, now_ms)
            while written < scan.batches:
                written += self._write_given(records, part_of(scan, written, scan.batches), now_ms)
        return AppendInfo(
            given[0].base_offsets[0],
            self.log_end_offset - 1,
            self.log_start_offset,
            max_timestamp=max([max(scan.max_timestamps) for scan in given]),
            record_count=sum([sum(scan.record_counts) for scan in given]),
            size=given[-1].end,
        )

    def _append_one_given(self, batch: memoryview, header: BatchHeader, leader_epoch: int, *, exact: bool) -> AppendInfo:
        """Append a single batch without a scan, at less than half its cost."""
        if not check_given(batch, 0, header, self.log_end_offset, leader_epoch, self.name, exact=exact):
            return AppendInfo(-1, -1, self.log_start_offset)
        base_offset, last_offset, size = header.base_offset, header.last_offset, len(batch)
        self._write((batch,), size, base_offset, last_offset, header.max_timestamp, header.partition_leader_epoch, self._clock.time_ms())
        if header.producer_id >= 0:
            self._follow_producer(header, base_offset, header.max_timestamp, read_marker(batch, 0, header) if header.is_control else None)
        self.producer_state.map_end_offset = last_offset + 1
        return AppendInfo(
            base_offset,
            last_offset,
            self.log_start_offset,
            max_timestamp=header.max_timestamp,
            record_count=header.record_count,
            size=size,
        )

    def _write_given(self, records: memoryview, scan: Scan, now_ms: int) -> int:
        """Write as many batches as fit into one segment, after a roll where needed; return their number."""
        if self._closed:
            raise self._gone()
        segments = self.segments
        with Guarded(self):
            if self._cut:
                self._harden()
            segment = segments.active
            count = segment.fitting(scan, now_ms, segments.segment_bytes, segments.segment_ms)
            if not count:
                segment = self._roll(scan.base_offsets[0])
                # A batch that is larger than a segment gets a segment for itself.
                count = segment.fitting(scan, now_ms, segments.segment_bytes, segments.segment_ms) or 1
            if count < scan.batches:
                scan = part_of(scan, 0, count)
            file = segment.file
            if max(scan.leader_epochs) > self.leader_epochs.latest_epoch:
                for epoch, base_offset in zip(scan.leader_epochs, scan.base_offsets, strict=True):
                    if epoch > self.leader_epochs.latest_epoch:
                        self.leader_epochs.assign(epoch, base_offset, flush=False)
            begin, position = scan.positions[0], segment.size
            file.pwritev((records[begin : scan.positions[-1] + scan.sizes[-1]],), position)
            segment.note_batches(scan, count, position - begin)
            segments.note_position(scan.base_offsets[0], position)
            self.log_end_offset = scan.last_offsets[-1] + 1
            follow_batches(segment, self.producer_state, records, scan, count)
        return count

    def start_verification(self, producer_id: int, sequence: int, epoch: int, *, bumps_epoch: bool = False) -> VerificationGuard | None:
        """Return the KIP-890 guard to hand to `append_as_leader` after the coordinator confirmed; None when no guard is needed."""
        return self.producer_state.start_verification(producer_id, sequence, epoch, self._clock.time_ms(), bumps_epoch=bumps_epoch)

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
        if self._closed:
            raise self._gone()
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

    def truncate_to(self, offset: int, *, durable: bool = True) -> bool:
        """Truncate the log so that it ends at `offset`; return whether something was removed.

        The log ends earlier when `offset` lies inside a batch, which is removed as a whole. Until the truncation is durable nothing may be
        written in place of the removed records: a power cut could bring whole batches back behind the new ones. With `durable` the
        truncation is made durable here, on this thread. Otherwise the next write does so, unless the caller has done it before
        (`LogManager.begin_hardening`).

        Raises ValueError below zero.
        """
        if offset < 0:
            raise ValueError(f"{self.name} cannot be truncated to {offset}")
        with Guarded(self, changing=True):
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            self._durability.void_plans()
            self._durability.touch()
            self.segments.forget_positions()
            if self.bases[0] > offset:
                self._start_over(offset)
            else:
                self._truncate(offset)
            self._truncated(durable)
            return True

    def _truncated(self, durable: bool) -> None:
        self._cut = True
        # The directory entries of removed snapshots and segments.
        self._durability.owe(f"{self.directory}/{PARTITION_METADATA}", name_only=True)
        if self._options.on_truncated is not None:
            self._options.on_truncated(self)
        if durable:
            self._harden()

    @property
    def is_cut(self) -> bool:
        """Return whether the log was truncated and the truncation is not durable yet; the next write makes it durable first."""
        return self._cut

    def hardened(self, flush: Flush) -> bool:
        """Record a flush of a truncated log that ran without error, as `finish_flush` does, after its checkpoints were written.

        Returns whether the truncation is durable now. It is not when the log was truncated again, renamed or closed in the meantime.
        """
        if flush.generation == self.generation:
            self._cut = False
        self.finish_flush(flush)
        return not self._cut

    def _harden(self) -> None:
        """Make a truncation durable on this thread: file, names and epochs, then the checkpoints.

        With a stored recovery point above the log end, new records up to it would count as flushed.
        """
        self.flush()
        if self._options.write_checkpoints is not None:
            self._options.write_checkpoints(self)
        if self._closed:
            raise self._gone()
        self._cut = False

    def _truncate(self, offset: int) -> None:
        # Without markers among the truncated batches the producers are rolled back in memory. With markers their state is rebuilt from the
        # last snapshot on, which may read a whole segment.
        markers = bool(self.producer_state.producers) and may_hold_markers(self.segments, offset)
        removed = self.bases[-1] > offset
        while self.bases[-1] > offset:
            self._remove(len(self.segments) - 1)
        if removed:
            # Otherwise a power cut could bring a later segment back although this one is truncated, with a hole between them.
            self._disk.fsync_dir(self.directory)
        wanted = offset
        offset = self.active.truncate_to(offset, self._clock.time_ms())
        if offset < min(wanted, self.log_start_offset):
            # The batch that contains the log start was removed as a whole: no readable record is left, and the log may not end below its
            # start.
            self._start_over(min(wanted, self.log_start_offset), keep_epochs=True)
            return
        self.log_end_offset = offset
        self._durability.truncated(offset, self.active.base_offset)
        self.leader_epochs.truncate_from_end(offset)
        self.log_start_offset = min(offset, self.log_start_offset)
        if not markers:
            self.producer_state.retreat(offset)
        rebuild_producer_state(
            self.producer_state,
            self.segments,
            self.log_start_offset,
            offset,
            self._clock.time_ms(),
            clean=False,
            owe=self._durability.owe_snapshot,
        )
        if self.high_watermark >= offset:
            self.update_high_watermark(offset)

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
            self._durability.void_plans()
            self._durability.touch()
            self._start_over(offset, state=state)
            if log_start_offset is not None:
                self.log_start_offset = log_start_offset
                self.high_watermark = max(log_start_offset, min(self.high_watermark, offset))
            self._truncated(durable)

    def _start_over(self, offset: int, *, keep_epochs: bool = False, state: StartingState | None = None) -> None:
        """Replace all segments by an empty one at `offset`.

        The new segment is made last: before, a crash leaves the old log or none; afterwards all that belongs to the new log exists.
        """
        self.segments.forget_positions()
        while self.segments:
            self._remove(len(self.segments) - 1)
        self.producer_state.truncate_fully(offset)
        if keep_epochs:
            self.leader_epochs.truncate_from_end(offset)
        else:
            self.leader_epochs.clear()
        if state is not None:
            # A power cut must not bring old segments back beside the new state.
            self._disk.fsync_dir(self.directory)
            self.leader_epochs.begin_with(state.epochs)
            self.leader_epochs.flush()
            self.producer_state.begin_with(offset, state.producers_before(offset), self._clock.time_ms())
        self.segments.begin(offset)
        self.log_start_offset = self.log_end_offset = offset
        self._durability.started_over(offset)
        self.high_watermark = offset

    def _remove(self, index: int) -> None:
        """Remove a segment from the log; its files wait as `.deleted` for `take_deletions`."""
        self._durability.touch()
        segment, deleted = self.segments.remove(index)
        self._deletions += deleted
        self._deletions += self.producer_state.retire_snapshot(segment.base_offset)

    def replace_segments(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replace `old`, neighbouring inactive segments, by `new`, which begins at the base offset of the first of them.

        Their files have been exchanged; see `compaction.swap`, the only caller.
        """
        self.segments.replace(new, old)
        for segment in old[1:]:
            self._deletions += self.producer_state.retire_snapshot(segment.base_offset)

    def delete_later(self, paths: Sequence[str]) -> None:
        """Add files that were renamed to `.deleted`, for `take_deletions`."""
        self._deletions += paths

    def delete_old_segments(self) -> int:
        """Apply retention by log start, size and time; return the number of removed segments. Their files wait for `take_deletions`."""
        with Guarded(self):
            return delete_old_segments(self, self._clock.time_ms())

    def rest(self) -> None:
        """Close the files of all inactive segments, and of the active one if nothing was appended since the last call.

        The files are opened again when they are needed. Slices in use stay readable.
        """
        idle, self._rested_end = self._rested_end == self.log_end_offset, self.log_end_offset
        self.segments.rest(active=idle)

    def remove_oldest(self, count: int) -> None:
        """Remove the `count` oldest segments, rolling first when that is all of them, and raise the log start accordingly."""
        if count == len(self.segments) and self.active.size:
            self._roll(self.log_end_offset)
        count = min(count, len(self.segments) - 1)
        if count > 0:
            self.maybe_increment_log_start_offset(self.bases[count])
            for _ in range(count):
                self._remove(0)

    def take_deletions(self) -> list[str]:
        """Take the paths of `.deleted` files not handed out yet. The caller removes them after file.delete.delay.ms, in any thread."""
        deletions, self._deletions = self._deletions, []
        return deletions

    def remove_expired_producers(self) -> None:
        self.producer_state.remove_expired(self._clock.time_ms())

    def rename_directory(self, name: str, *, durable: bool = True) -> None:
        """Rename the directory within its log directory. Descriptors stay open, slices stay readable.

        With `durable` False the caller fsyncs the log directory, off the loop.
        """
        with Guarded(self, changing=True):
            target = f"{self.parent_directory}/{name}"
            self._durability.void_plans()
            self._disk.rename(self.directory, target)
            if durable:
                self._disk.fsync_dir(self.parent_directory)
            self._durability.renamed(self.directory, target)
            self.directory = target
            self.segments.update_directory(target)
            self.leader_epochs.path = f"{target}/{LEADER_EPOCH_CHECKPOINT}"
            self.producer_state.directory = target

    def close(self, *, durable: bool = False) -> None:
        """Write a producer snapshot, complete the indexes and close the descriptors; with `durable` fsync all of it first. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._durability.void_plans()
        with Guarded(self, changing=True):
            changed = not self._durability.is_untouched(self.log_end_offset) or self.active.is_preallocated
            if changed:
                self.producer_state.take_snapshot()
                self.active.become_inactive()
            if durable and (changed or self._durability.owes_names()):
                self._run_flush(self._plan_flush(self.log_end_offset, closing=True))
            self.segments.close_handles()

    def close_handles(self) -> None:
        """Close descriptors without writing anything, when the directory failed or is being deleted."""
        self._closed = True
        self._durability.void_plans()
        self.segments.close_handles()
