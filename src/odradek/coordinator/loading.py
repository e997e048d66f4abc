"""Loading of partitions into new shards: read in an executor, replayed on the loop in short slices (CoordinatorLoaderImpl).

When the log is read as runs, the compiled codec puts the values of known keys directly into the shard's tables. Only the other records are
replayed here. All records count as committed, because the shard is invisible until they are committed (`context.ShardState.LOADED`). The
shard is dropped when another leader takes the partition over before that.

After a failover a broker may have to load dozens of partitions. Only a few are loaded at a time, which leaves executor threads, memory and
loop iterations to other work. The other loads wait in their order of arrival.
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

_DECODED_COST = 10
"""Cost of a record that needs message objects, in records that the compiled codec handles."""


class LoadQueue:
    """Queue that runs `limit` loads at a time.

    A stopped load keeps its place until its current read is done, so that reads do not pile up.
    """

    __slots__ = ("_clock", "_limit", "_running", "_waiting")

    def __init__(self, clock: Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._running = 0
        self._waiting: dict[Loader, None] = {}

    def __len__(self) -> int:
        """Return the number of waiting loads."""
        return len(self._waiting)

    def enter(self, loader: Loader) -> None:
        """Begin the load now, or when a place is free."""
        if self._running < self._limit:
            self._running += 1
            loader.begin()
        else:
            self._waiting[loader] = None

    def withdraw(self, loader: Loader) -> None:
        """Remove a load that is still waiting."""
        self._waiting.pop(loader, None)

    def leave(self) -> None:
        """Free the place of a finished load, and begin the next one."""
        self._running -= 1
        if self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._running += 1
            # A direct call would nest loads whose reads complete at once.
            self._clock.call_later(0, following.begin)


class Loader:
    """Load of one shard, from the log's start to its end.

    `done` is called with None, or with the exception that ended the load. After `stop` it is not called.
    """

    __slots__ = (
        "_clock",
        "_context",
        "_done",
        "_end",
        "_options",
        "_position",
        "_queue",
        "_replay_encoded",
        "_serde",
        "_stopped",
        "loaded_records",
    )

    def __init__(
        self,
        context: ShardContext[S],
        queue: LoadQueue,
        clock: Clock,
        serde: RecordSerde,
        options: RuntimeOptions,
        done: Callable[[BaseException | None], object],
    ) -> None:
        self._context = context
        self._queue = queue
        self._clock = clock
        self._serde = serde
        self._options = options
        self._done = done
        # Checked only once, because isinstance with a protocol is slow and batches may be many and small.
        self._replay_encoded = context.shard.replay_encoded if isinstance(context.shard, EncodedReplay) else None
        self._stopped = False
        self.loaded_records = 0
        self._position = self._end = 0

    def start(self) -> None:
        self._queue.enter(self)

    def stop(self) -> None:
        """End the load at its next step."""
        self._stopped = True
        self._queue.withdraw(self)

    def begin(self) -> None:
        """Begin the load; called by the queue."""
        # A load is never reverted, so the journal needs no undo actions.
        self._context.journal.recording = False
        if self._is_stopped():
            return
        try:
            self._position, self._end = self._context.log.log_start_offset, self._context.log.log_end_offset
        except KafkaError as error:
            self._finish(error)
            return
        self._read()

    def _is_stopped(self) -> bool:
        """Return whether the load was stopped, and free its place in that case. Each step calls this method exactly once after a wait."""
        if self._stopped:
            self._queue.leave()
        return self._stopped

    def _finish(self, error: BaseException | None) -> None:
        self._context.journal.recording = True
        self._queue.leave()
        self._done(error)

    def _read(self) -> None:
        if self._position >= self._end:
            self._finish(None)
            return
        try:
            read = self._context.log.read(self._position, self._end, self._options.load_buffer_bytes)
        except Exception as error:
            self._finish(error)
            return
        read.add_callback(self._was_read)

    def _was_read(self, read: Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]) -> None:
        if self._is_stopped():
            return
        if read.error is not None:
            self._finish(read.error)
            return
        batches = read.result()
        if isinstance(batches, LoadedRun):
            self._begin_run(batches)
        elif batches:
            self._replay(batches, 0, 0)
        else:
            # Compaction has removed all records up to the end.
            self._position = self._end
            self._read()

    def _replay_on(self, batches: Sequence[LoadedBatch], index: int, start: int) -> None:
        if not self._is_stopped():
            self._replay(batches, index, start)

    def _replay(self, batches: Sequence[LoadedBatch], index: int, start: int) -> None:
        """Replay a slice, and schedule the next one for the next loop iteration, so that other partitions are served in between."""
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
            self._finish(error)
            return
        if index < len(batches):
            self._clock.call_later(0, self._replay_on, batches, index, start)
        else:
            self._read()

    def _begin_run(self, run: LoadedRun) -> None:
        shard = self._context.shard
        if not isinstance(shard, EncodedReplay):
            self._finish(TypeError(f"{type(shard).__name__} cannot be loaded from runs"))
            return
        cursor = native.codec.KeyedRun(run.data, self._end, *shard.load_values)
        self._replay_run(run, shard, cursor, self._position)

    def _replay_run_on(self, run: LoadedRun, shard: EncodedReplay, cursor: KeyedRun, start: int) -> None:
        if not self._is_stopped():
            self._replay_run(run, shard, cursor, start)

    def _replay_run(self, run: LoadedRun, shard: EncodedReplay, cursor: KeyedRun, start: int) -> None:
        """Replay a slice of a run that begins at offset `start`, and schedule the next one as `_replay` does."""
        try:
            more = self._replay_slice(run, shard, cursor)
        except Exception as error:
            self._finish(error)
            return
        if more:
            self._clock.call_later(0, self._replay_run_on, run, shard, cursor, start)
            return
        if self._position == start:
            # Compaction has removed all records up to the end.
            self._position = self._end
        self._read()

    def _replay_slice(self, run: LoadedRun, shard: EncodedReplay, cursor: KeyedRun) -> bool:
        """Replay a slice of a run. Return False at the end of the run."""
        left = self._options.load_slice_records
        while left > 0:
            ended_by = cursor.put(shard.load_tables, left)
            left -= cursor.count
            self.loaded_records += cursor.count
            self._position = max(self._position, cursor.next_offset)
            if ended_by == native.codec.KEYED_OTHER:
                left -= self._replay_one(cursor.offset, -1, -1, cursor.key, cursor.value) - 1
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

    def _replay_records(self, batch: LoadedBatch, start: int, stop: int) -> None:
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        for offset, key, value in batch.records[start:stop]:
            self._replay_one(offset, producer_id, producer_epoch, key, value)
        self.loaded_records += stop - start

    def _replay_one(self, offset: int, producer_id: int, producer_epoch: int, key: bytes | None, value: bytes | None) -> int:
        """Replay a record, and return its cost in records that the compiled codec handles."""
        replay_encoded = self._replay_encoded
        if replay_encoded is not None and replay_encoded(offset, producer_id, key, value):
            return 1
        try:
            record = self._serde.decode(key, value)
        except UnknownRecordTypeError as error:
            logger.warning("%s, offset %d: %s; the record is ignored", self._context.topic_partition, offset, error)
        else:
            self._context.shard.replay(offset, producer_id, producer_epoch, record)
        return _DECODED_COST

    def _replay_marker(self, batch: LoadedBatch) -> None:
        assert batch.committed is not None
        self._context.shard.replay_end_transaction(batch.base_offset, batch.producer_id, batch.producer_epoch, committed=batch.committed)
