"""Replaying a partition into a new shard: read and decoded in an executor, replayed on the loop in short slices (CoordinatorLoaderImpl)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.coordinator.context import RuntimeOptions, ShardContext
from odradek.coordinator.records import RecordSerde, UnknownRecordTypeError
from odradek.coordinator.shard import CoordinatorShard, EncodedReplay, LoadedBatch

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

    def _was_read(self, read: Deferred[Sequence[LoadedBatch]]) -> None:
        if self._stopped:
            return
        if read.error is not None:
            self._done(read.error)
            return
        batches = read.result()
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

    def _replay_marker(self, batch: LoadedBatch) -> None:
        context = self._context
        context.journal.offset = batch.base_offset
        context.journal.recording = batch.base_offset >= context.log.high_watermark
        assert batch.committed is not None
        context.shard.replay_end_transaction(batch.base_offset, batch.producer_id, batch.producer_epoch, committed=batch.committed)
        context.journal.recording = True

    def _replay_records(self, batch: LoadedBatch, start: int, stop: int) -> None:
        context = self._context
        journal, replay, decode = context.journal, context.shard.replay, self._serde.decode
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        replay_encoded = self._replay_encoded
        # What is committed can never be taken back: no closures for it.
        journal.recording = batch.next_offset > context.log.high_watermark
        try:
            for offset, key, value in batch.records[start:stop]:
                journal.offset = offset
                if replay_encoded is not None and replay_encoded(offset, producer_id, key, value):
                    continue
                try:
                    record = decode(key, value)
                except UnknownRecordTypeError as error:
                    logger.warning("%s, offset %d: %s; it is left alone", context.topic_partition, offset, error)
                    continue
                replay(offset, producer_id, producer_epoch, record)
        finally:
            journal.recording = True
        self.loaded_records += stop - start
