"""Shard of one partition: batches of operations, responses parked until the commit, state reverted after a failed append.

1. An operation reads the state and returns records and a response. The context replays the records at once, at the offsets they will get,
   under the undo journal, so that the next operation sees them. The records join the current batch.
2. The context appends the batch at the end of the loop iteration, or earlier when the batch is full: many operations, one append.
3. Responses wait for the high watermark. An operation without records waits for all records that it may have seen, loaded records included.
4. When an append fails, the context reverts the state to before the batch's first record, and the batch's operations fail. When the
   partition is lost, all uncommitted operations fail with NOT_COORDINATOR.
5. The high watermark of a new leader may be behind offsets that the previous leader acknowledged. Therefore no operation runs, and loaded
   state stays invisible, until the high watermark reaches the loaded end. (Kafka 4.3.1 answers from the older state until then.)

(CoordinatorRuntime.CoordinatorContext)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Alarm
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
"""Upper bound in bytes for length, attributes, deltas and header count of a record."""


class ShardState(Enum):
    """LOADING -> LOADED -> ACTIVE; LOADING or LOADED -> FAILED; every state -> CLOSED."""

    LOADING = "loading"
    LOADED = "loaded"
    """The log has been replayed up to its end, but part of it is not committed yet."""
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class RuntimeOptions:
    """Options of all shards of one coordinator. Times in milliseconds, sizes in bytes."""

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
        """Milliseconds for which a batch collects operations; -1: until the end of the loop iteration."""
        self.load_buffer_bytes = load_buffer_bytes
        self.load_slice_records = load_slice_records
        """Records of one load that are replayed in one loop iteration."""
        self.loads_at_once = loads_at_once
        self.write_timeout_ms = write_timeout_ms


class _Waiting:
    """Response that is due once all offsets below `offset` are committed."""

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
        """Complete or fail the response. Exceptions of callbacks are logged, because other operations wait behind this response."""
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
            logger.exception("a callback after an operation of a coordinator failed")


class ShardContext(Generic[S]):
    """Runtime state of one shard; see the module docstring. `CoordinatorRuntime` creates and drives it."""

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
        """Offset of the next record: the log end offset plus the records of the current batch."""
        self._records: list[tuple[int, Sequence[tuple[bytes, bytes | None]]]] = []
        """Current batch: time in milliseconds and records of each operation."""
        self._count = 0
        self._size = 0
        self._gathered: list[_Waiting] = []
        self._waiting: deque[_Waiting] = deque()
        self._flush_alarm = Alarm(clock, self.flush)
        self._timeout = Alarm(clock, self._timed_out)
        self._timeout_offset = 0
        """Offset up to which responses time out when the alarm rings."""
        self._stop_listening: Callable[[], None] | None = None
        self._on_active: Callable[[], object] | None = None
        self._on_diverged: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"ShardContext({self.topic_partition}, {self.state.value}, epoch {self.leader_epoch}, next offset {self.next_offset})"

    # -- states ----------------------------------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> int:
        """Number of operations that wait until their records are written or committed."""
        return len(self._gathered) + len(self._waiting)

    @property
    def unwritten(self) -> int:
        """Number of operations whose records are not in the log yet; part of `unanswered`."""
        return len(self._gathered)

    def loaded(self, on_active: Callable[[], object], on_lost: Callable[[], object], on_diverged: Callable[[], object]) -> None:
        """Set the state LOADED after the log has been replayed to its end. `on_active` is called once the loaded records are committed.

        `on_lost` is called when this broker stops leading the partition. `on_diverged` is called when another writer has appended to the
        partition, so that the state has to be loaded again. Raises KafkaError when this broker does not lead the partition any more.
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

    def continue_leading(self, leader_epoch: int) -> bool:
        """Return whether the shard goes on in a later leader epoch: this broker led the partition all the time, so the log is unchanged.

        When the result is False, the partition has to be loaded again.
        """
        if self.state in (ShardState.FAILED, ShardState.CLOSED) or not self.log.continue_leading(leader_epoch):
            return False
        self.leader_epoch = leader_epoch
        if self.state is ShardState.ACTIVE:
            self.shard.on_new_epoch()
        return True

    def stop_listening(self) -> None:
        """Stop listening to the log's high watermark and to the end of leadership."""
        if self._stop_listening is not None:
            self._stop_listening()

    def close(self, error: KafkaError) -> None:
        """Fail all operations that are not committed. Idempotent."""
        if self.state is ShardState.CLOSED:
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        self.timers.close()
        self._flush_alarm.close()
        self._timeout.close()
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
        """Run the operation and return its response, which completes when the records are committed.

        A KafkaError of the operation fails the response and leaves the state unchanged. When `reply` is given, that Deferred is completed
        and returned in place of a new one.
        """
        reply = Deferred() if reply is None else reply
        try:
            result = self._decide(operation)
        except KafkaError as error:
            reply.fail(error)
            return reply
        return self._take(result, -1, -1, reply)

    def _decide(self, operation: Callable[[S], CoordinatorResult[T]]) -> CoordinatorResult[T]:
        # Changes that the operation itself makes to journaled state are reverted together with its first record.
        self.journal.offset = self.next_offset
        try:
            return operation(self.shard)
        except Exception:
            self.journal.revert_to(self.next_offset)
            raise

    def write_transactional(
        self, producer_id: int, producer_epoch: int, guard: object | None, operation: Callable[[S], CoordinatorResult[T]]
    ) -> Deferred[T]:
        """Run the operation as `write` does, but append its records in a separate batch as part of the producer's transaction."""
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
        """Append and replay the marker of a transaction that wrote to this partition. The result completes when the marker is committed."""
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
            return self._answer_without_records(result, deferred)
        size = native.codec.total_size(encoded) + _RECORD_OVERHEAD * len(encoded)
        try:
            limit = self.log.max_batch_bytes - HEADER_SIZE
        except KafkaError as error:
            # This broker does not lead the partition any more, or the disk has failed; the listener has not been called yet.
            return self._refuse(result, append_error(error), deferred)
        if size > limit and self._options.compression is Compression.NONE:
            if not result.atomic and len(result.records) > 1:
                return self._write_in_parts(result, producer_id, producer_epoch, deferred)
            too_large = KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(encoded)} records of {size} bytes for {self.topic_partition} do not fit into a batch of {limit} bytes",
            )
            return self._refuse(result, append_error(too_large), deferred)
        if self._records and self._size + size > limit:
            before = self.next_offset
            self.flush()
            if self.next_offset != before:
                # The failed flush has just reverted the state that the operation has read, and the operation's changes.
                taken_back = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "earlier records could not be written")
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
        if producer_id < 0 and not self._flush_alarm.is_set:
            self._flush_alarm.set(self._linger_s)
        return deferred

    def _answer_without_records(self, result: CoordinatorResult[T], deferred: Deferred[T]) -> Deferred[T]:
        """Answer an operation without records once all records that it may have read are committed.

        These include loaded records, and records whose operation has timed out.
        """
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
        if not self._timeout.is_set:
            self._timeout_offset = self.next_offset
            self._timeout.set(self._options.write_timeout_ms / 1000)

    def _refuse(self, result: CoordinatorResult[T], error: KafkaError, deferred: Deferred[T]) -> Deferred[T]:
        self.journal.revert_to(self.next_offset)
        if result.on_committed is not None:
            result.on_committed(error)
        deferred.fail(error)
        return deferred

    def _write_in_parts(self, result: CoordinatorResult[T], producer_id: int, producer_epoch: int, deferred: Deferred[T]) -> Deferred[T]:
        """Write the records in halves until each part fits. At the first error the rest is not written, and the response fails with that
        error.
        """
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
                # The journal gets the last offset for all of these records, because the batch is committed as a whole.
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
        """Append the current batch."""
        if self._flush_alarm.is_set:
            self._flush_alarm.cancel()
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
        """Append the batch that `make` returns. Whatever error is raised, all its operations are answered
        (CoordinatorRuntime.failCurrentBatch).
        """
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
            # Another writer has appended to the partition: the replayed records have other offsets than the records in the log.
            logger.error("%s: records expected at offset %d were appended at %d", self.topic_partition, offset, base_offset)
            self._revert(offset, gathered, self._reloading())
            self._diverged()
            return
        self._waiting.extend(gathered)
        self.on_high_watermark(self.log.high_watermark)
        if self._waiting:
            self._limit_waiting()

    def _reloading(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_COORDINATOR, f"the state of {self.topic_partition} must be loaded again")

    def _revert(self, offset: int, gathered: list[_Waiting], error: KafkaError) -> None:
        self.journal.revert_to(offset)
        self.next_offset = offset
        for waiting in gathered:
            waiting.fail(error)

    def on_high_watermark(self, offset: int) -> None:
        """Process the new high watermark `offset`: activate a loaded shard, and complete the responses whose records are below `offset`."""
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
        if not waiting and self._timeout.is_set:
            self._timeout.cancel()

    def _timed_out(self) -> None:
        """Fail the responses that were not committed in time. Their records may be committed later, so log and state keep them."""
        error = append_error(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.topic_partition}: the records were not replicated in time"))
        waiting = self._waiting
        while waiting and waiting[0].offset <= self._timeout_offset:
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
    # From a verification: clients retry the resulting error without a new lookup of the coordinator.
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
    """Return the error that a client of the coordinator gets for a failed append."""
    code = append_error_code(error.code)
    return error if code is error.code else KafkaError(code, error.message)


def append_error_code(code: ErrorCode) -> ErrorCode:
    """Return the error code that a client of the coordinator gets when an append or its verification fails with `code`.

    (CoordinatorOperationExceptionHelper)
    """
    return _APPEND_ERRORS.get(code, code)
