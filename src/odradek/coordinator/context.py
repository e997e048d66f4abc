"""One partition's shard at work: operations gathered into batches, replies parked until the commit, state reverted on failure.

1. An operation reads the state and returns records and a response. The records are replayed at once, at the offsets they will get, under
   the undo journal, so that the next operation sees them, and join the batch that is being gathered.
2. The batch is written at the end of the loop's turn, or before when it is full: many operations, one append.
3. Replies wait for the high watermark. An operation without records waits for all that it may have seen, loaded records included.
4. When the append fails, everything from the batch's first record on is taken back and its operations fail; when the partition is lost,
   all that is not committed fails with NOT_COORDINATOR.
5. A new leader's high watermark may be behind what its predecessor has acknowledged. What was loaded is therefore shown to nobody, and no
   operation runs, before the high watermark has reached the end that was loaded. (Kafka 4.3.1 answers from the older state meanwhile.)

(CoordinatorRuntime.CoordinatorContext)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from odradek.base.clock import Clock, TimerHandle
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal
from odradek.coordinator.records import RecordSerde
from odradek.coordinator.shard import CoordinatorLog, CoordinatorResult, CoordinatorShard
from odradek.coordinator.timers import Expire, Timers
from odradek.records import native
from odradek.records.batch import HEADER_SIZE, encode_keyed
from odradek.records.compression import Compression

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")

_RECORD_OVERHEAD = 32
"""More than length, attributes, deltas and header count of a record ever take."""


class ShardState(Enum):
    """LOADING -> LOADED -> ACTIVE, or FAILED from the first two; all of them -> CLOSED."""

    LOADING = "loading"
    LOADED = "loaded"
    """The log has been replayed to its end, and not all of it is committed."""
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class RuntimeOptions:
    """What the shards of one coordinator share. Times in milliseconds, sizes in bytes."""

    __slots__ = ("compression", "linger_ms", "load_buffer_bytes", "load_slice_records", "loads_at_once", "write_timeout_ms")

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        linger_ms: int = -1,
        load_buffer_bytes: int = 5 * 1024 * 1024,
        load_slice_records: int = 2_000,
        loads_at_once: int = 2,
        write_timeout_ms: int = 5_000,
    ) -> None:
        self.compression = compression
        self.linger_ms = linger_ms
        """How long a batch is gathered; -1: until the end of the loop's turn."""
        self.load_buffer_bytes = load_buffer_bytes
        self.load_slice_records = load_slice_records
        """Records of one load that are replayed in one turn of the loop."""
        self.loads_at_once = loads_at_once
        self.write_timeout_ms = write_timeout_ms


class _Waiting:
    """A reply that is due once `offset` is committed."""

    __slots__ = ("deferred", "offset", "on_committed", "response")

    def __init__(self, deferred: Deferred[Any], offset: int, response: object, on_committed: Callable[[KafkaError | None], object] | None):
        self.deferred = deferred
        self.offset = offset
        self.response = response
        self.on_committed = on_committed

    def complete(self) -> None:
        self._finish(None)

    def fail(self, error: KafkaError) -> None:
        self._finish(error)

    def _finish(self, error: KafkaError | None) -> None:
        """Answer; log what raises on the way, since other operations wait behind this one."""
        try:
            try:
                if self.on_committed is not None:
                    self.on_committed(error)
            finally:
                if error is None:
                    self.deferred.complete(self.response)
                else:
                    self.deferred.fail(error)
        except Exception:
            logger.exception("the end of an operation of a coordinator failed")


class ShardContext(Generic[S]):
    """See the module's text. Made and driven by `CoordinatorRuntime`."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        log: CoordinatorLog,
        clock: Clock,
        serde: RecordSerde,
        options: RuntimeOptions,
        new_shard: Callable[[TopicPartition, UndoJournal, Timers], S],
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.log = log
        self._clock = clock
        self._serde = serde
        self._options = options
        self._linger_s = max(options.linger_ms, 0) / 1000
        self.journal = UndoJournal()
        self.timers = Timers(clock, self._expired)
        self.shard = new_shard(topic_partition, self.journal, self.timers)
        self.next_offset = 0
        """The offset that the next record gets: the log end and what has been gathered."""
        self._records: list[tuple[int, Sequence[tuple[bytes, bytes | None]]]] = []
        """What is gathered: the time of each operation, and its records."""
        self._count = 0
        self._size = 0
        self._gathered: list[_Waiting] = []
        self._waiting: deque[_Waiting] = deque()
        self._flush_timer: TimerHandle | None = None
        self._timeout: TimerHandle | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._on_active: Callable[[], object] | None = None
        self._on_diverged: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"ShardContext({self.topic_partition}, {self.state.value}, epoch {self.leader_epoch}, next offset {self.next_offset})"

    # -- life ------------------------------------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> int:
        """Requests that wait until their records are written or committed."""
        return len(self._gathered) + len(self._waiting)

    @property
    def unwritten(self) -> int:
        """Of those, the ones whose records are not in the log yet."""
        return len(self._gathered)

    def loaded(self, on_active: Callable[[], object], on_lost: Callable[[], object], on_diverged: Callable[[], object]) -> None:
        """The log has been replayed up to its end. Operations are served from `on_active` on: once all of that is committed.

        `on_lost` is called when the partition is led here no more, `on_diverged` when somebody else has written to it: the state has to be
        loaded again. KafkaError when the partition is lost already.
        """
        self._on_active, self._on_diverged = on_active, on_diverged
        self.next_offset = self.log.log_end_offset
        self.state = ShardState.LOADED
        self._stop_listening = self.log.listen(self.on_high_watermark, on_lost)
        self.on_high_watermark(self.log.high_watermark)

    def _activate(self) -> None:
        on_active, self._on_active = self._on_active, None
        assert on_active is not None
        if self.log.log_end_offset != self.next_offset:
            self._diverged()
            return
        self.state = ShardState.ACTIVE
        on_active()

    def _diverged(self) -> None:
        assert self._on_diverged is not None
        self._on_diverged()

    def lead_on(self, leader_epoch: int) -> bool:
        """The partition is led here in a later epoch, without having followed in between, so that its log is as this shard knows it.

        False when that is not so, and the partition has to be loaded again.
        """
        if self.state in (ShardState.FAILED, ShardState.CLOSED) or not self.log.lead_on(leader_epoch):
            return False
        self.leader_epoch = leader_epoch
        if self.state is ShardState.ACTIVE:
            self.shard.on_new_epoch()
        return True

    def stop_listening(self) -> None:
        """Hear no more of the log: neither of its high watermark nor of the end of its leadership."""
        if self._stop_listening is not None:
            self._stop_listening()

    def close(self, error: KafkaError) -> None:
        """Fails everything that is not committed. Idempotent."""
        if self.state is ShardState.CLOSED:
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        self.timers.close()
        for timer in (self._flush_timer, self._timeout):
            if timer is not None:
                timer.cancel()
        self.stop_listening()
        waiting = [*self._waiting, *self._gathered]
        self._waiting.clear()
        self._gathered = []
        for each in waiting:
            each.fail(error)
        if was_active:
            self.shard.on_unloaded()

    # -- operations --------------------------------------------------------------------------------------------------------------

    def write(self, operation: Callable[[S], CoordinatorResult[T]], reply: Deferred[T] | None = None) -> Deferred[T]:
        """Runs the operation; the reply when its records are committed. KafkaError of the operation fails it, and nothing is changed.

        `reply` is completed and handed out in the place of a new one.
        """
        reply = Deferred() if reply is None else reply
        try:
            result = self._decide(operation)
        except KafkaError as error:
            reply.fail(error)
            return reply
        return self._take(result, -1, -1, reply)

    def _decide(self, operation: Callable[[S], CoordinatorResult[T]]) -> CoordinatorResult[T]:
        # What the operation changes itself in journaled state goes the way of its first record.
        self.journal.offset = self.next_offset
        try:
            return operation(self.shard)
        except Exception:
            self.journal.revert_to(self.next_offset)
            raise

    def write_transactional(
        self, producer_id: int, producer_epoch: int, guard: object | None, operation: Callable[[S], CoordinatorResult[T]]
    ) -> Deferred[T]:
        """As `write`, the records in a batch of their own as part of the producer's transaction."""
        self.flush()
        if self.state is not ShardState.ACTIVE:
            return Deferred.failed(self._reloading())
        try:
            result = self._decide(operation)
        except KafkaError as error:
            return Deferred.failed(error)
        deferred = self._take(result, producer_id, producer_epoch, Deferred())
        if result.records or result.encoded is not None:
            self.flush(producer_id=producer_id, producer_epoch=producer_epoch, guard=guard)
        return deferred

    def end_transaction(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool, version: int
    ) -> Deferred[None]:
        """Appends the marker of a transaction that wrote to this partition and replays it; done when it is committed."""
        from odradek.coordinator.markers import marker_batch

        self.flush()
        if self.state is not ShardState.ACTIVE:
            return Deferred.failed(self._reloading())
        offset = self.next_offset
        self.journal.offset = offset
        try:
            self.shard.replay_end_transaction(offset, producer_id, producer_epoch, committed=committed)
        except Exception:
            self.journal.revert_to(offset)
            raise
        deferred: Deferred[None] = Deferred()
        self.next_offset = offset + 1
        self._gathered.append(_Waiting(deferred, self.next_offset, None, None))
        now_ms = self._clock.time_ms()
        make = partial(marker_batch, producer_id, producer_epoch, coordinator_epoch, committed=committed, now_ms=now_ms)
        self._write_out(make, offset, None, version)
        return deferred

    def _take(self, result: CoordinatorResult[T], producer_id: int, producer_epoch: int, deferred: Deferred[T]) -> Deferred[T]:
        if result.encoded is not None:
            encoded = result.encoded.records
        elif result.records:
            try:
                encoded = [self._serde.encode(record) for record in result.records]
            except Exception:
                self.journal.revert_to(self.next_offset)
                raise
        else:
            return self._take_nothing(result, deferred)
        size = native.codec.total_size(encoded) + _RECORD_OVERHEAD * len(encoded)
        try:
            limit = self.log.max_batch_bytes - HEADER_SIZE
        except KafkaError as error:
            # The partition is somebody else's, or its disk has failed, and the news is on its way.
            return self._refuse(result, append_error(error), deferred)
        if size > limit and self._options.compression is Compression.NONE:
            if not result.atomic and len(result.records) > 1:
                return self._take_in_parts(result, producer_id, producer_epoch, deferred)
            too_large = KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(encoded)} records of {size} bytes for {self.topic_partition} do not fit into a batch of {limit} bytes",
            )
            return self._refuse(result, append_error(too_large), deferred)
        if self._records and self._size + size > limit:
            before = self.next_offset
            self.flush()
            if self.next_offset != before:
                # What the operation has seen, and whatever it changed, was just taken back.
                taken_back = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the records before could not be written")
                return self._refuse(result, taken_back, deferred)
        now_ms = self._clock.time_ms()
        offset = self.next_offset
        if result.replay:
            self._replay(result, offset, producer_id, producer_epoch)
        self._records.append((now_ms, encoded))
        self._size += size
        self._count += len(encoded)
        self.next_offset = offset + len(encoded)
        self._gathered.append(_Waiting(deferred, self.next_offset, result.response, result.on_committed))
        if producer_id < 0 and self._flush_timer is None:
            self._flush_timer = self._clock.call_later(self._linger_s, self.flush)
        return deferred

    def _take_nothing(self, result: CoordinatorResult[T], deferred: Deferred[T]) -> Deferred[T]:
        """The reply waits for all that the operation may have seen: also what was loaded, or took too long, and is not committed yet."""
        waiting = _Waiting(deferred, self.next_offset, result.response, result.on_committed)
        if self._gathered:
            self._gathered.append(waiting)
            return deferred
        try:
            committed = self.log.high_watermark
        except KafkaError as error:
            return self._refuse(result, append_error(error), deferred)
        if self._waiting or committed < self.next_offset:
            self._waiting.append(waiting)
            self._limit_waiting()
        else:
            waiting.complete()
        return deferred

    def _limit_waiting(self) -> None:
        if self._timeout is None:
            self._timeout = self._clock.call_later(self._options.write_timeout_ms / 1000, self._timed_out, self.next_offset)

    def _refuse(self, result: CoordinatorResult[T], error: KafkaError, deferred: Deferred[T]) -> Deferred[T]:
        self.journal.revert_to(self.next_offset)
        if result.on_committed is not None:
            result.on_committed(error)
        deferred.fail(error)
        return deferred

    def _take_in_parts(self, result: CoordinatorResult[T], producer_id: int, producer_epoch: int, deferred: Deferred[T]) -> Deferred[T]:
        """Halves, until they fit; an error ends it where it stands, and the reply tells of it."""
        middle = len(result.records) // 2
        half = CoordinatorResult(result.records[:middle], result.response, replay=result.replay, atomic=False)
        first: Deferred[T] = self._take(half, producer_id, producer_epoch, Deferred())
        if first.error is not None:
            if result.on_committed is not None and isinstance(first.error, KafkaError):
                result.on_committed(first.error)
            deferred.fail(first.error)
            return deferred
        return self._take(
            CoordinatorResult(
                result.records[middle:], result.response, replay=result.replay, on_committed=result.on_committed, atomic=False
            ),
            producer_id,
            producer_epoch,
            deferred,
        )

    def _replay(self, result: CoordinatorResult[T], offset: int, producer_id: int, producer_epoch: int) -> None:
        journal, shard = self.journal, self.shard
        try:
            if result.encoded is not None:
                # Under the last offset: whatever is committed of them, all of them is.
                journal.offset = offset + len(result.encoded.records) - 1
                result.encoded.replay(offset, producer_id)
            for index, record in enumerate(result.records):
                journal.offset = offset + index
                shard.replay(offset + index, producer_id, producer_epoch, record)
        except Exception:
            journal.revert_to(offset)
            raise

    # -- the log -----------------------------------------------------------------------------------------------------------------

    def flush(self, *, producer_id: int = -1, producer_epoch: int = -1, guard: object | None = None) -> None:
        """Writes what has been gathered."""
        timer, self._flush_timer = self._flush_timer, None
        if timer is not None:
            timer.cancel()
        records, count, size = self._records, self._count, self._size
        if not records:
            return
        self._records = []
        self._count = self._size = 0
        offset = self.next_offset - count
        make = partial(
            encode_keyed,
            records,
            size,
            base_offset=offset,
            compression=self._options.compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer_id >= 0,
            partition_leader_epoch=self.leader_epoch,
        )
        self._write_out(make, offset, guard)

    def _write_out(self, make: Callable[[], bytes], offset: int, guard: object | None, transaction_version: int = 0) -> None:
        """Append the batch that `make` returns. Whatever raises, all that is gathered is answered (CoordinatorRuntime.failCurrentBatch)."""
        gathered, self._gathered = self._gathered, []
        try:
            base_offset = self.log.append(make(), self.leader_epoch, guard, transaction_version)
        except KafkaError as error:
            self._revert(offset, gathered, append_error(error))
            return
        except Exception:
            logger.exception("%s: %d operations could not be written", self.topic_partition, len(gathered))
            problem = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the records for {self.topic_partition} could not be written")
            self._revert(offset, gathered, problem)
            return
        if base_offset != offset:
            # Somebody else writes to the partition: what was replayed stands at other offsets than in the log.
            logger.error("%s: records expected at offset %d were appended at %d", self.topic_partition, offset, base_offset)
            self._revert(offset, gathered, self._reloading())
            self._diverged()
            return
        self._waiting.extend(gathered)
        self.on_high_watermark(self.log.high_watermark)
        if self._waiting:
            self._limit_waiting()

    def _reloading(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_COORDINATOR, f"the state of {self.topic_partition} has to be loaded again")

    def _revert(self, offset: int, gathered: list[_Waiting], error: KafkaError) -> None:
        self.journal.revert_to(offset)
        self.next_offset = offset
        for waiting in gathered:
            waiting.fail(error)

    def on_high_watermark(self, offset: int) -> None:
        """Everything below `offset` is committed."""
        if self.state is ShardState.LOADED:
            if offset >= self.next_offset:
                self._activate()
            return
        if self.state is not ShardState.ACTIVE:
            return
        self.journal.commit_to(offset)
        waiting = self._waiting
        while waiting and waiting[0].offset <= offset:
            waiting.popleft().complete()
        if not waiting and self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _timed_out(self, offset: int) -> None:
        """What was appended up to `offset` did not become committed in time; it may yet, so that it stays in the log and in the state."""
        self._timeout = None
        error = append_error(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.topic_partition}: the records were not replicated in time"))
        waiting = self._waiting
        while waiting and waiting[0].offset <= offset:
            waiting.popleft().fail(error)
        if waiting:
            self._limit_waiting()

    def _expired(self, expire: Expire, done: Callable[[bool], object]) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        try:
            deferred = self.write(lambda _: expire())
        except Exception:
            logger.exception("a timer of %s failed", self.topic_partition)
            done(False)
            return
        deferred.add_callback(lambda finished: done(finished.error is None))


_APPEND_ERRORS = {
    # Of a verification: clients retry what this becomes, without looking for the coordinator again.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: KafkaError) -> KafkaError:
    """What a client of the coordinator hears of a failed append."""
    code = append_error_code(error.code)
    return error if code is error.code else KafkaError(code, error.message)


def append_error_code(code: ErrorCode) -> ErrorCode:
    """What a client of the coordinator hears of an append that failed, or could not be verified, with this error
    (CoordinatorOperationExceptionHelper).
    """
    return _APPEND_ERRORS.get(code, code)
