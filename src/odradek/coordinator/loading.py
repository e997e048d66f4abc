"""Replaying a partition into a new shard: read in an executor, replayed on the loop in short slices (CoordinatorLoaderImpl).

What is read as a run, committed values of keys that were seen before are put into the shard's tables by the compiled codec, and only what
is left over comes here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.context import RuntimeOptions, ShardContext
from odradek.coordinator.records import RecordSerde, UnknownRecordTypeError
from odradek.coordinator.shard import CoordinatorShard, EncodedReplay, LoadedBatch, LoadedRun
from odradek.records import native

if TYPE_CHECKING:
    from odradek.records.codec import KeyedRun

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)


class Loader:
    """One load of one shard. `stop` makes it end at its next step; `done` is told None, or the exception that ended it."""

    __slots__ = ("_clock", "_context", "_done", "_end", "_options", "_position", "_replay_encoded", "_serde", "_stopped", "loaded_records")

    def __init__(
        self,
        context: ShardContext[S],
        clock: Clock,
        serde: RecordSerde,
        options: RuntimeOptions,
        done: Callable[[BaseException | None], object],
    ) -> None:
        self._context = context
        self._clock = clock
        self._serde = serde
        self._options = options
        self._done = done
        # Asked once: batches may be many and small, and looking at a protocol's members is slow.
        self._replay_encoded = context.shard.replay_encoded if isinstance(context.shard, EncodedReplay) else None
        self._stopped = False
        self.loaded_records = 0
        self._end = context.log.log_end_offset
        self._position = context.log.log_start_offset

    def start(self) -> None:
        self._read()

    def stop(self) -> None:
        self._stopped = True

    def _read(self) -> None:
        if self._stopped:
            return
        if self._position >= self._end:
            self._done(None)
            return
        try:
            self._context.log.read(self._position, self._end, self._options.load_buffer_bytes).add_callback(self._was_read)
        except Exception as error:
            self._done(error)

    def _was_read(self, read: Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]) -> None:
        if self._stopped:
            return
        if read.error is not None:
            self._done(read.error)
            return
        batches = read.result()
        if isinstance(batches, LoadedRun):
            self._begin_run(batches)
            return
        if not batches:
            # Nothing but what compaction left out lies up to the end.
            self._position = self._end
            self._read()
            return
        self._replay(batches, 0, 0)

    def _replay(self, batches: Sequence[LoadedBatch], index: int, start: int) -> None:
        """Replays a slice and goes on with the next on the loop's next turn, so that other partitions are served meanwhile."""
        if self._stopped:
            return
        left = self._options.load_slice_records
        try:
            while index < len(batches):
                batch = batches[index]
                if batch.committed is not None:
                    self._replay_marker(batch)
                else:
                    count = min(left, len(batch.records) - start)
                    self._replay_records(batch, start, start + count)
                    left -= count
                    start += count
                    if start < len(batch.records):
                        break
                self._position = batch.next_offset
                index, start = index + 1, 0
                if left <= 0:
                    break
        except Exception as error:
            self._done(error)
            return
        if index < len(batches):
            self._clock.call_later(0, self._replay, batches, index, start)
        else:
            self._read()

    def _begin_run(self, run: LoadedRun) -> None:
        shard = self._context.shard
        if not isinstance(shard, EncodedReplay):
            self._done(TypeError(f"{type(shard).__name__} cannot be loaded from runs"))
            return
        cursor = native.codec.KeyedRun(run.data, min(self._context.log.high_watermark, self._end), *shard.load_values)
        start = self._position
        self._replay_run(run, shard, cursor, start)

    def _replay_run(self, run: LoadedRun, shard: EncodedReplay, cursor: KeyedRun, start: int) -> None:
        """A slice of a run that begins at offset `start`, and then the next, as `_replay`."""
        if self._stopped:
            return
        try:
            more = self._replay_slice(run, shard, cursor)
        except Exception as error:
            self._done(error)
            return
        if more:
            self._clock.call_later(0, self._replay_run, run, shard, cursor, start)
            return
        if self._position == start:
            # Nothing but what compaction left out lies up to the end.
            self._position = self._end
        self._read()

    def _replay_slice(self, run: LoadedRun, shard: EncodedReplay, cursor: KeyedRun) -> bool:
        """False when the run is done."""
        left = self._options.load_slice_records
        while left > 0:
            ended_by = cursor.put(shard.load_tables, left)
            left -= cursor.count
            self.loaded_records += cursor.count
            self._position = max(self._position, cursor.next_offset)
            if ended_by == native.codec.KEYED_OTHER:
                self._replay_other(shard, cursor)
            elif ended_by == native.codec.KEYED_BATCH:
                decoded = run.decode(run.data, cursor.batch_end)
                if decoded is None:
                    return False
                batch, position = decoded
                if batch.committed is None:
                    self._replay_records(batch, 0, len(batch.records))
                else:
                    self._replay_marker(batch)
                left -= len(batch.records)
                self._position = batch.next_offset
                cursor.skip(position)
            elif ended_by == native.codec.KEYED_END:
                return False
            elif ended_by == native.codec.KEYED_MALFORMED:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"{self._context.topic_partition} has malformed records below offset {cursor.next_offset}"
                )
        return True

    def _replay_other(self, shard: EncodedReplay, cursor: KeyedRun) -> None:
        """One committed record."""
        context = self._context
        journal = context.journal
        journal.offset = cursor.offset
        journal.recording = False
        try:
            if not shard.replay_encoded(cursor.offset, -1, cursor.key, cursor.value):
                self._replay_decoded(cursor.offset, -1, -1, cursor.key, cursor.value)
        finally:
            journal.recording = True

    def _replay_decoded(self, offset: int, producer_id: int, producer_epoch: int, key: bytes | None, value: bytes | None) -> None:
        try:
            record = self._serde.decode(key, value)
        except UnknownRecordTypeError as error:
            logger.warning("%s, offset %d: %s; it is left alone", self._context.topic_partition, offset, error)
            return
        self._context.shard.replay(offset, producer_id, producer_epoch, record)

    def _replay_marker(self, batch: LoadedBatch) -> None:
        context = self._context
        context.journal.offset = batch.base_offset
        context.journal.recording = batch.base_offset >= context.log.high_watermark
        assert batch.committed is not None
        context.shard.replay_end_transaction(batch.base_offset, batch.producer_id, batch.producer_epoch, committed=batch.committed)
        context.journal.recording = True

    def _replay_records(self, batch: LoadedBatch, start: int, stop: int) -> None:
        context = self._context
        journal = context.journal
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        replay_encoded = self._replay_encoded
        # What is committed can never be taken back: no closures for it.
        journal.recording = batch.next_offset > context.log.high_watermark
        try:
            for offset, key, value in batch.records[start:stop]:
                journal.offset = offset
                if replay_encoded is None or not replay_encoded(offset, producer_id, key, value):
                    self._replay_decoded(offset, producer_id, producer_epoch, key, value)
        finally:
            journal.recording = True
        self.loaded_records += stop - start
