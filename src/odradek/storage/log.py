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

from collections.abc import Sequence
from itertools import islice

from odradek.base.errors import ErrorCode, KafkaError
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
)
from odradek.storage.flushing import Flush, Guarded
from odradek.storage.log_base import LogBase
from odradek.storage.names import LEADER_EPOCH_CHECKPOINT
from odradek.storage.producer_state import BatchMetadata, CompletedTransaction, VerificationGuard
from odradek.storage.reading import (
    LogRead,
    OffsetPosition,
    TimestampedOffset,
    find_offset_for_max_timestamp,
    find_offset_for_timestamp,
    read_log,
)
from odradek.storage.recovery import rebuild_producer_state, recent_batches
from odradek.storage.retention import delete_old_segments
from odradek.storage.segment import Segment
from odradek.storage.starting_state import StartingState
from odradek.storage.txn_index import AbortedTransaction

__all__ = ["AppendInfo", "AppendOrigin", "Flush", "Log", "LogRead", "OffsetPosition", "TimestampedOffset"]

_BOUNDARIES_KEPT = 512

_CLIENT, _RAFT_LEADER = AppendOrigin.CLIENT, AppendOrigin.RAFT_LEADER
"""Looked up once: members of an enum are slow to come by."""


class Log(LogBase):
    """See the module's text. One thread only, except where the package says otherwise.

    Errors: KafkaError for what a client or leader did wrong; OSError from the disk, which the log manager turns into a failed
    directory (`on_io_error` is called first, then the error goes on as KAFKA_STORAGE_ERROR).
    """

    __slots__ = ()

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
        if size > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size} bytes does not fit into a segment of {self.name} (segment.bytes is {self._segment_bytes})",
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
                self.leader_epochs.assign(leader_epoch, base_offset, flush=False)
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

    def position_of(self, offset: int) -> OffsetPosition:
        """Where a batch that contains `offset` begins; OFFSET_OUT_OF_RANGE outside the log."""
        return self.read(offset, max_bytes=0, max_offset=offset, min_one_message=False).start

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

        Ends earlier when `offset` lies inside a batch: the whole batch goes. Fsyncs on this thread, rare as it is: until the cut is durable
        nothing may be written in its place, or a power cut could bring whole batches back behind the new ones; and the next append comes
        in the same turn of the loop.
        """
        if offset < 0:
            raise ValueError(f"{self.name} cannot be truncated to {offset}")
        with Guarded(self):
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            self._generation += 1
            self._untouched_end = -1
            self._forget_boundaries()
            if self.bases[0] > offset:
                self._start_over(offset)
            else:
                self._truncate(offset)
            self._truncated()
            return True

    def _truncated(self) -> None:
        """The stored recovery point must not stay above the end: what is written from now on up to it would count as flushed. The
        epochs that were cut go from their file too: in a compacted log recovery would keep them.
        """
        if self.leader_epochs.dirty:
            self.leader_epochs.flush()
        if self._on_truncated is not None:
            self._on_truncated(self)

    def _truncate(self, offset: int) -> None:
        removed = self.bases[-1] > offset
        while self.bases[-1] > offset:
            self._remove(len(self.segments) - 1)
        if removed:
            # Or a power cut could bring a later segment back although this one is cut, with a hole between them.
            self._disk.fsync_dir(self.directory)
        self.active = self.segments[-1]
        wanted = offset
        offset = self.active.truncate_to(offset, self._clock.time_ms())
        if offset < min(wanted, self.log_start_offset):
            # The batch that contains the log start went as a whole: nothing readable is left, and the log does not end below its start.
            self._start_over(min(wanted, self.log_start_offset), keep_epochs=True)
            return
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._index_point = min(self._index_point, self.active.base_offset)
        self.leader_epochs.truncate_from_end(offset)
        self.log_start_offset = min(offset, self.log_start_offset)
        rebuild_producer_state(self.producer_state, self.segments, self.log_start_offset, offset, self._clock.time_ms(), clean=False)
        if self.high_watermark >= offset:
            self.update_high_watermark(offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None, *, state: StartingState | None = None) -> None:
        """Drops everything; the next append gets `offset`. The log start becomes `offset` unless given.

        With `state`, the epochs and producers that the records before `offset` have left elsewhere, the log goes on from there. A crash
        leaves a beginning of the old log, maybe nothing of it, or the new one with its state. StorageError, and nothing has changed,
        when the state cannot be one at `offset`.
        """
        if state is not None:
            state.producers_before(offset)
        with Guarded(self):
            self._generation += 1
            self._untouched_end = -1
            self._start_over(offset, state=state)
            if log_start_offset is not None:
                self.log_start_offset = log_start_offset
                self.high_watermark = max(log_start_offset, min(self.high_watermark, offset))
            self._truncated()

    def _start_over(self, offset: int, *, keep_epochs: bool = False, state: StartingState | None = None) -> None:
        """The new segment comes last: before, a crash leaves the old log or none; from then on all that belongs to it is there."""
        self._forget_boundaries()
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
        self._add(self._new_segment(offset))
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._index_point = offset
        self.high_watermark = offset

    def _remove(self, index: int) -> None:
        """Takes a segment out of the log; its files wait as `.deleted` for `take_deletions`."""
        self._untouched_end = -1
        segment = self.segments.pop(index)
        del self.bases[index]
        self._deletions += segment.mark_deleted()
        self._deletions += self.producer_state.retire_snapshot(segment.base_offset)

    def replace_segments(self, new: Segment, old: Sequence[Segment]) -> None:
        """`new` takes the place of `old`, neighbours without the active segment, the first of which begins where it does.

        Their files have been exchanged; see `compaction.swap`, the only caller.
        """
        first = self.segments.index(old[0])
        self.segments[first : first + len(old)] = [new]
        self.bases[first : first + len(old)] = [new.base_offset]
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
        for segment in self.segments:
            if idle or segment is not self.active:
                segment.rest()

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

    def rename_directory(self, name: str, *, durable: bool = True) -> None:
        """Renames the directory within its log directory; descriptors stay open, slices stay readable.

        With `durable` False the caller fsyncs the log directory, off the loop.
        """
        with Guarded(self):
            target = f"{self.parent_directory}/{name}"
            self._generation += 1
            self._disk.rename(self.directory, target)
            if durable:
                self._disk.fsync_dir(self.parent_directory)
            old = self.directory
            self._unsynced_files = [target + path.removeprefix(old) for path in self._unsynced_files]
            self._unsynced_names = [target + path.removeprefix(old) for path in self._unsynced_names]
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
        self._generation += 1
        with Guarded(self):
            changed = self.log_end_offset != self._untouched_end or self.active.is_preallocated
            if changed:
                self.producer_state.take_snapshot()
                self.active.become_inactive()
            if durable and (changed or self._unsynced_names):
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
        self._generation += 1
        for segment in self.segments:
            segment.close_handles()
