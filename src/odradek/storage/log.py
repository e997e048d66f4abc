"""A partition's log: appending, reading, truncating (Kafka's UnifiedLog and LocalLog).

An append as leader takes these steps:
  1. read the 61-byte header, check the CRC and what else a client's batch must fulfil (`records.validation`);
  2. ask the producer state: a duplicate is answered with its first offset, a gap or an old epoch is refused;
  3. roll when the segment is full;
  4. write [base offset, length, leader epoch, rest] in one vectored write, the producer's bytes uncopied;
  5. only then move the log end offset, indexes, leader epochs and producer state.
A failed write leaves nothing behind that is visible: the log end offset has not moved, and the bytes are overwritten or cut by recovery.

A log is put together of `segments` (log_segments.py), `leader_epochs`, `producer_state` and a `Durability` (flushing.py), which each keep
one part of its state; the offsets are its own.
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
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.flushing import Durability, Flush, Guarded
from odradek.storage.given import check_given, read_given
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
"""Looked up once: members of an enum are slow to come by."""


class Log:
    """See the module's text. One thread only, except where the package says otherwise.

    Errors: KafkaError for what a client or leader did wrong; OSError from the disk, which the log manager turns into a failed
    directory (`on_io_error` is called first, then the error goes on as KAFKA_STORAGE_ERROR).
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
        """Made by `loader.load_log`; `segments` is not empty. `clean` tells that nothing has to be flushed at the next shutdown unless the
        log changes.
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
        """Whether the log was truncated and that is not durable yet."""
        self._rested_end = -1

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset}, {len(self.segments)} segments)"

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect with the next append, roll or retention check."""
        self.config = config
        self._rules = rules_of(config)
        self.segments.update_config(config)

    # -- what it is --------------------------------------------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments.active

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        return self.segments.bases

    @property
    def generation(self) -> int:
        """Rises with truncation, closing and renaming, and when the directory fails: plans of long work made before are void then. Appends,
        rolls and retention leave it alone; what they change shows in `segments`.
        """
        return self._durability.generation

    @property
    def closed(self) -> bool:
        """Closed, deleted or gone with its directory: nothing is written to it any more."""
        return self._closed

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self.segments.size

    @property
    def is_future(self) -> bool:
        """Whether it is a copy on its way to another log directory."""
        return self.directory.endswith(FUTURE_DIR_SUFFIX)

    @property
    def parent_directory(self) -> str:
        """The log directory that it lies in."""
        return self.directory.rpartition("/")[0]

    # -- offsets -----------------------------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """All records below are durable."""
        return self._durability.recovery_point

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
        with Guarded(self, changing=True):
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

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch <= `epoch`; (-1, -1) when unknown (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- rolling and flushing ----------------------------------------------------------------------------------------------------

    def roll(self, at_offset: int | None = None) -> Segment:
        """Begins a new segment at the log end (or at `at_offset` beyond it); an empty active segment that begins there stays."""
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
        # The snapshot at a segment's base lets recovery begin right there.
        self.producer_state.map_end_offset = base_offset
        try:
            unsynced = self.producer_state.take_snapshot(sync=False)
        except OSError as error:
            if not out_of_descriptors(error):
                raise
            unsynced = None  # recovery begins at the snapshot before
        if unsynced is not None:
            self._durability.owe_snapshot(unsynced)
        if self._options.on_roll is not None:
            self._options.on_roll(self)
        return segment

    @property
    def checkpointed_recovery_point(self) -> int:
        """What recovery-point-offset-checkpoint may say: less than the recovery point while indexes of rolled segments are not durable."""
        if self._closed:
            return self.recovery_point
        return self._durability.checkpointed_recovery_point(self.segments, self.log_end_offset)

    @property
    def flush_due(self) -> bool:
        """Whether flush.messages asks for a flush: so many records are not durable yet."""
        return self.log_end_offset - self._durability.recovery_point >= self.config.flush_messages

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush now."""
        if self.log_end_offset <= self.recovery_point:
            return False
        return self.flush_due or now_ms - self._durability.last_flush_ms >= self.config.flush_ms

    @property
    def unsynced_paths(self) -> tuple[list[str], list[str]]:
        """Files that are not durable yet, and names; what was owed before the first flush."""
        return self._durability.owed

    def owe_fsync(self, path: str, *, name_only: bool = False) -> None:
        """A file that this log needs (or with `name_only` just its name, or a directory's) is not durable yet: the next flush makes it so,
        before its records count as durable.
        """
        self._durability.owe(path, name_only=name_only)

    def begin_flush(self, up_to: int | None = None) -> Flush | None:
        """What must be fsynced so that everything below `up_to` (the log end) is durable; None when it is.

        KAFKA_STORAGE_ERROR when the log is closed, or its directory went offline, before that.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if not self._cut and self._durability.covers(end, self.segments.active.base_offset):
            return None
        if self._closed:
            raise self._gone()
        with Guarded(self):
            return self._plan_flush(end, closing=False)

    def _plan_flush(self, end: int, *, closing: bool) -> Flush:
        # Epochs that were cut go from the file, too: in a compacted log recovery would keep them.
        behind = self.leader_epochs.dirty if self._cut else self.leader_epochs.is_behind(self.log_end_offset)
        epochs = self.leader_epochs.begin_write() if behind else None
        flush = self._durability.plan(end, self.segments, epochs, closing=closing)
        if closing:
            # A transaction index or a snapshot may have been made since the directory was last made durable.
            flush.add_paths([], [f"{self.directory}/{PARTITION_METADATA}"])
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """The flush ran without error: the recovery point moves, unless the log was truncated meanwhile."""
        if not self._durability.finish(flush, self._clock.time_ms()):
            # In case that the directory got another name: what was not found under the old one is owed still.
            self.owe_fsync(f"{self.directory}/{PARTITION_METADATA}")
        if flush.epochs is not None:
            self.leader_epochs.finish_write(flush.epochs)

    def flush(self, up_to: int | None = None) -> None:
        """Both halves in one, on this thread. A failure takes the directory offline: nothing is ever flushed again."""
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
        """Takes back a flush that failed: the log owes what was not made durable, should its directory work on."""
        self._durability.give_back(flush, self.directory)

    def _gone(self) -> KafkaError:
        """For callers that still hold a log which was closed, deleted or went offline with its directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {self.name} in {self.directory} is closed")

    def write_again(self, start_offset: int) -> None:
        """Writes the batches from `start_offset` on once more, in their own place, before they are flushed.

        After an fsync that failed Linux takes the pages for clean: they stay in memory, also for the next process, and the next fsync
        succeeds without having written them.
        """
        first = self.segments.index_at(start_offset)
        for segment in self.segments[first:]:
            batch = segment.find(start_offset)
            if batch is not None:
                segment.write_again(batch.position)

    def failed(self, error: OSError, *, changing: bool = False) -> KafkaError:
        """Reports the directory as failed and gives the error to answer with.

        The directory does not fail for want of a descriptor, unless the log was `changing` and is in no state to go on.
        """
        if changing and out_of_descriptors(error):
            error = OSError(errno.EIO, f"{error.strerror} in the middle of a change", error.filename)
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
        """Validates one record batch, gives it offsets and writes it; bytes behind it that are no whole batch are left out. Of a marker,
        `transaction_version` is that of the transaction (0 for a coordinator that does not say).

        KafkaError with Kafka's code for what is refused (nothing is written then), KAFKA_STORAGE_ERROR when the disk fails. More than one
        batch is INVALID_RECORD, whoever sends it (LogValidator of Kafka, for batches of version 2).
        """
        if len(records) < HEADER_SIZE:
            if not records:
                return AppendInfo(-1, -1, self.log_start_offset)
            raise KafkaError(ErrorCode.INVALID_RECORD, f"The records appended to {self.name} hold no whole batch")
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
            # A coordinator knew where its batch would come.
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
                    # Whichever clock the topic goes by, as in Kafka (UnifiedLog.append).
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
        """The earlier batch that this one repeats, None when it is the next one; OUT_OF_ORDER_SEQUENCE_NUMBER when it is neither.

        After a restart the state knows the last batch of a producer only. One that seems out of order may then be the repetition of an
        earlier one whose answer was lost with the connection, so that the log is asked, once per producer. (Kafka refuses it, and its
        client writes it again under the next epoch.)
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
        """Producer state and transaction index after a batch with a producer id was written."""
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
        """One batch to the end of the log, rolling before it where needed; moves the log end offset."""
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
        """Appends a single batch, without a scan, at less than half its cost."""
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
        """Writes as many batches as fit into one segment, after a roll where needed; returns how many."""
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
                # One that is larger than a segment has one to itself.
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
        """The KIP-890 guard to hand to `append_as_leader` after the coordinator confirmed; None when none is needed."""
        return self.producer_state.start_verification(producer_id, sequence, epoch, self._clock.time_ms(), bumps_epoch=bumps_epoch)

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

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [start_offset, upper_bound), for read_committed fetches."""
        found: list[AbortedTransaction] = []
        with Guarded(self):
            for segment in self.segments[self.segments.index_at(start_offset) :]:
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

    def truncate_to(self, offset: int, *, durable: bool = True) -> bool:
        """Cuts the log so that it ends at `offset`; True when something was removed. ValueError below zero.

        Ends earlier when `offset` lies inside a batch: the whole batch goes. Until the cut is durable nothing may be written in its place,
        or a power cut could bring whole batches back behind the new ones. It is made so on this thread: at once, or with `durable` False
        by the next write, unless the caller has done it before (`LogManager.begin_hardening`).
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
        # Of snapshots and segments that were removed.
        self._durability.owe(f"{self.directory}/{PARTITION_METADATA}", name_only=True)
        if self._options.on_truncated is not None:
            self._options.on_truncated(self)
        if durable:
            self._harden()

    @property
    def is_cut(self) -> bool:
        """Whether the log was truncated and that is not durable yet; the next write makes it durable first."""
        return self._cut

    def hardened(self, flush: Flush) -> bool:
        """Takes over a flush of a truncated log that ran without error, as `finish_flush` does, after its checkpoints were written.

        Returns whether the truncation is durable now: False when the log was truncated again, renamed or closed in the meantime.
        """
        if flush.generation == self.generation:
            self._cut = False
        self.finish_flush(flush)
        return not self._cut

    def _harden(self) -> None:
        """Makes a truncation durable on this thread: file, names and epochs, then the checkpoints. A stored recovery point above the
        log end would make records that are written up to it count as flushed.
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
            # Or a power cut could bring a later segment back although this one is cut, with a hole between them.
            self._disk.fsync_dir(self.directory)
        wanted = offset
        offset = self.active.truncate_to(offset, self._clock.time_ms())
        if offset < min(wanted, self.log_start_offset):
            # The batch that contains the log start went as a whole: nothing readable is left, and the log does not end below its start.
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
        """Drops everything; the next append gets `offset`. The log start becomes `offset` unless given. `durable`: as in `truncate_to`.

        With `state`, the epochs and producers that the records before `offset` have left elsewhere, the log goes on from there. A crash
        leaves a beginning of the old log, maybe nothing of it, or the new one with its state. StorageError, and nothing has changed,
        when the state cannot be one at `offset`.
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
        """The new segment comes last: before, a crash leaves the old log or none; from then on all that belongs to it is there."""
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
        """Takes a segment out of the log; its files wait as `.deleted` for `take_deletions`."""
        self._durability.touch()
        segment, deleted = self.segments.remove(index)
        self._deletions += deleted
        self._deletions += self.producer_state.retire_snapshot(segment.base_offset)

    def replace_segments(self, new: Segment, old: Sequence[Segment]) -> None:
        """`new` takes the place of `old`, neighbours without the active segment, the first of which begins where it does.

        Their files have been exchanged; see `compaction.swap`, the only caller.
        """
        self.segments.replace(new, old)
        for segment in old[1:]:
            self._deletions += self.producer_state.retire_snapshot(segment.base_offset)

    def delete_later(self, paths: Sequence[str]) -> None:
        """Files renamed `.deleted`, for `take_deletions`."""
        self._deletions += paths

    def delete_old_segments(self) -> int:
        """Retention by log start, size and time; how many segments went. Their files wait for `take_deletions`."""
        with Guarded(self):
            return delete_old_segments(self, self._clock.time_ms())

    def rest(self) -> None:
        """Closes what is not in use: the files of all segments but the active one, and of that too if nothing was appended since the
        last call. They are opened again when they are needed; slices that are out stay readable.
        """
        idle, self._rested_end = self._rested_end == self.log_end_offset, self.log_end_offset
        self.segments.rest(active=idle)

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

    def rename_directory(self, name: str, *, durable: bool = True) -> None:
        """Renames the directory within its log directory; descriptors stay open, slices stay readable.

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
        """Snapshot of the producer state, complete indexes, descriptors closed; with `durable` all of it fsynced first. Idempotent."""
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
        """Closes descriptors and writes nothing: the directory failed or is being deleted."""
        self._closed = True
        self._durability.void_plans()
        self.segments.close_handles()
