"""Moves replicas between the log directories of this broker while they are served (AlterReplicaLogDirs, KIP-113 and KIP-858).

1. A future log `<topic>-<partition>.<hash>-future` is made in the target directory.
2. It is filled from the current log, batches as they are, and then follows it: appends, truncations, log start, high watermark.
3. Caught up, it is flushed; then the controller is told where the replica will be (AssignReplicasToDirs) and has to agree.
4. No flush of the partition begins from now on, so that nothing new counts as durable. What is durable in the current log is made so in
   the future one, with a note of the exchange to come.
5. The rest is copied and the two change places: two renames, within one turn of the loop. Flushes go on, on the new log; the names
   become durable in the executor, and the old log is deleted like any other.

A crash before 5 leaves two logs, and the move goes on after the restart; in 5, `LogManager.settle_moves` knows what to do.
(kafka.server.ReplicaAlterLogDirsThread, ReplicaAlterLogDirsManager)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock, TimerHandle
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.replication.flushing import Flusher, RunJob
from odradek.storage.append import UnexpectedAppendOffsetError
from odradek.storage.common_prefix import common_end

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.replication.partition import Partition
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager
    from odradek.storage.reading import LogRead

logger = logging.getLogger(__name__)

AssignDirectory = Callable[[TopicIdPartition, UUID], Deferred[None]]
"""Tells the controller in which directory a replica of this broker is; done when the metadata has it."""

_SMALLEST_PIECE, _LARGEST_PIECE = 64 * 1024, 4 * 1024 * 1024
_LONG_APPEND_S = 0.005
"""Bytes copied at a time: as many as can be appended without keeping the loop busy for long, small batches take longer."""
_LAST_PIECES = 4
"""How many of them are copied within one turn of the loop when the logs are about to change places."""
_FOLLOW_INTERVAL_S = 0.02
"""How often a future log that is caught up looks for more."""
_HOLD_S = 2.0
"""How long the flushes of a partition wait for the exchange, before they go on and it is tried again."""
_FLUSH_EVERY = 64 * 1024 * 1024
_ANY_EPOCH = 0x7FFFFFFF
_OWNER = "moves"
"""Who pauses the cleaning of a partition on its way."""


class MoveState(Enum):
    """How far a move is."""

    COPYING = "copying"
    ASSIGNING = "assigning"
    """Caught up; the controller has been asked."""
    ASSIGNED = "assigned"
    """The metadata names the new directory."""
    HOLDING = "holding"
    """The flushes of the partition wait for the exchange."""
    FINAL = "final"
    """What was durable in the current log is so in the future one."""
    ENDED = "ended"


TRANSITIONS: dict[MoveState, frozenset[MoveState]] = {
    MoveState.COPYING: frozenset({MoveState.ASSIGNING, MoveState.ASSIGNED, MoveState.ENDED}),
    MoveState.ASSIGNING: frozenset({MoveState.ASSIGNED, MoveState.ENDED}),
    MoveState.ASSIGNED: frozenset({MoveState.HOLDING, MoveState.ENDED}),
    MoveState.HOLDING: frozenset({MoveState.FINAL, MoveState.ASSIGNED, MoveState.ENDED}),
    MoveState.FINAL: frozenset({MoveState.ASSIGNED, MoveState.ENDED}),
    MoveState.ENDED: frozenset(),
}


class Move:
    """One replica on its way."""

    __slots__ = (
        "cut_to",
        "future",
        "generation",
        "held",
        "hold_until",
        "near",
        "origin",
        "partition",
        "source",
        "state",
        "timer",
        "unflushed",
    )

    def __init__(self, partition: Partition, source: Log, future: Log, origin: UUID | None) -> None:
        self.partition = partition
        self.source = source
        self.future = future
        self.origin = origin
        """The directory id of the current log, for the controller should the move end early."""
        self.state = MoveState.COPYING
        self.generation = source.generation
        self.cut_to: int | None = None
        """The lowest end that the current log was cut to since the future one was."""
        self.timer: TimerHandle | None = None
        self.near = False
        """The last piece reached the end that the current log had when it was read."""
        self.unflushed = 0
        """Bytes copied since the last flush."""
        self.held = False
        """No flush of the partition is under way any more, and none begins."""
        self.hold_until = 0.0

    def become(self, state: MoveState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"the move of {self.partition.topic_partition} cannot go from {self.state.value} to {state.value}")
        self.state = state


class FutureReplicas:
    """The moves of a broker. `alter` begins, changes or cancels one; the others are called by who notices."""

    def __init__(
        self,
        log_manager: LogManager,
        *,
        clock: Clock,
        disk: Disk,
        run_job: RunJob,
        flusher: Flusher,
        config: DynamicBrokerConfig,
        assign: AssignDirectory | None,
        on_moved: Callable[[Partition], object],
    ) -> None:
        """Without `assign` (metadata that records no directories) replicas move without asking. `on_moved` is told when one has."""
        self._log_manager = log_manager
        self._clock = clock
        self._disk = disk
        self._run_job = run_job
        self._flusher = flusher
        self._config = config
        self._assign = assign
        self._on_moved = on_moved
        self.moves: dict[TopicPartition, Move] = {}
        self._copying = 0
        self._waiting: deque[Move] = deque()
        self._piece = _SMALLEST_PIECE
        self._free_at = 0.0
        """When the throttle lets the next piece through (monotonic seconds)."""
        log_manager.on_truncated = self._truncated

    # -- beginning and ending --------------------------------------------------------------------------------------------------------

    def alter(self, partition: Partition, path: str) -> None:
        """Moves the replica to the log directory at `path`, which is online; to where it is: cancels. KAFKA_STORAGE_ERROR when a
        directory fails, NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR while the partition has no log here.
        """
        topic_partition = partition.topic_partition
        future = self._log_manager.get_log(topic_partition, future=True)
        if future is not None and future.parent_directory != path:
            self.cancel(topic_partition)
            future = None
        log = partition.local_log(-1, leader_only=False)
        if log.parent_directory == path or future is not None:
            return
        self._log_manager.create_future_log(topic_partition, log.topic_id, log.config, path)
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Goes on with a move whose logs are there, also from before a restart; nothing when there is none or it is under way."""
        topic_partition = partition.topic_partition
        future = self._log_manager.get_log(topic_partition, future=True)
        source = partition.log
        if future is None or source is None or topic_partition in self.moves:
            return
        directory = self._log_manager.directory(source.parent_directory)
        move = self.moves[topic_partition] = Move(partition, source, future, None if directory is None else directory.directory_id)
        if self._log_manager.cleaner is not None:
            # What is compacted while it is copied would never be compacted again.
            self._log_manager.cleaner.pause(topic_partition, _OWNER)
        logger.info("%s moves from %s to %s", topic_partition, source.parent_directory, future.parent_directory)
        self._later(move, 0)

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Ends the move and deletes the future log; the controller hears where the replica stays."""
        self.stop(topic_partition)
        self._log_manager.delete_future_log(topic_partition)

    def stop(self, topic_partition: TopicPartition, *, gone: bool = False) -> None:
        """Ends the move, if there is one, and leaves its files alone; `gone` when the partition is no longer here at all."""
        move = self.moves.pop(topic_partition, None)
        if move is None:
            return
        told = move.state in (MoveState.ASSIGNING, MoveState.ASSIGNED, MoveState.HOLDING, MoveState.FINAL)
        self._end(move)
        if told and not gone and move.origin is not None and self._assign is not None:
            self._assign(_identity(move.partition), move.origin)

    def directory_failed(self, path: str) -> None:
        """The moves from and to this log directory end."""
        for topic_partition, move in list(self.moves.items()):
            if path in (move.source.parent_directory, move.future.parent_directory):
                logger.error("the move of %s ends with log directory %s", topic_partition, path)
                self.stop(topic_partition)

    def close(self) -> None:
        """At shutdown: nothing is copied any more, and nobody is told. The next start goes on."""
        for move in list(self.moves.values()):
            self._end(move)
        self.moves.clear()

    def _end(self, move: Move) -> None:
        if move.timer is not None:
            move.timer.cancel()
        if move.state in (MoveState.HOLDING, MoveState.FINAL):
            self._flusher.release(move.partition)
        if self._log_manager.cleaner is not None:
            self._log_manager.cleaner.resume(move.partition.topic_partition, _OWNER)
        move.become(MoveState.ENDED)

    def _truncated(self, log: Log) -> None:
        move = self.moves.get(log.topic_partition)
        if move is not None and move.source is log:
            end = log.log_end_offset
            move.cut_to = end if move.cut_to is None else min(move.cut_to, end)

    # -- one step after the other ------------------------------------------------------------------------------------------------------

    def _later(self, move: Move, delay_s: float) -> None:
        if move.state is not MoveState.ENDED:
            move.timer = self._clock.call_later(delay_s, self._step, move)

    def _step(self, move: Move) -> None:
        move.timer = None
        if move.state is MoveState.ENDED:
            return
        try:
            self._go_on(move)
        except KafkaError as error:
            # A directory that failed has ended the move; all else was true a moment ago (a truncation, a new log start).
            logger.info("the move of %s: %s", move.partition.topic_partition, error)
            self._later(move, _FOLLOW_INTERVAL_S)
        except Exception:
            logger.exception("the move of %s failed", move.partition.topic_partition)
            self.cancel(move.partition.topic_partition)

    def _go_on(self, move: Move) -> None:
        source, future = move.source, move.future
        if move.partition.log is not source or source.closed or future.closed:
            self.stop(move.partition.topic_partition)
            return
        self._follow(move)
        if move.state in (MoveState.HOLDING, MoveState.FINAL) and self._clock.monotonic() >= move.hold_until:
            self._let_go(move)
        elif move.state is MoveState.FINAL:
            self._exchange(move)
        elif move.state is MoveState.ASSIGNING and move.near:
            move.near = False
            self._later(move, _FOLLOW_INTERVAL_S)
        elif future.log_end_offset < source.log_end_offset and not move.near:
            self._copy(move)
        elif move.state is MoveState.COPYING:
            self._flush(move, self._ask)
        elif move.state is MoveState.ASSIGNED:
            self._hold(move)
        elif move.state is MoveState.HOLDING and move.held:
            self._flush(move, self._hardened, self._log_manager.note_move(source, future))
        else:
            self._later(move, _FOLLOW_INTERVAL_S)

    def _follow(self, move: Move) -> None:
        """Truncations, high watermark and log start of the current log."""
        source, future = move.source, move.future
        if move.cut_to is not None or source.generation != move.generation:
            end = common_end(source, future)
            if move.cut_to is not None:
                end = min(end, move.cut_to)
            if end < future.log_end_offset:
                future.truncate_to(max(end, 0))
            move.cut_to = None
            move.generation = source.generation
        if future.log_end_offset < source.log_start_offset or future.log_start_offset > source.log_end_offset:
            future.truncate_fully_and_start_at(source.log_start_offset)
        if future.high_watermark != source.high_watermark:
            future.update_high_watermark(source.high_watermark)
        if future.log_start_offset < source.log_start_offset <= future.high_watermark:
            future.maybe_increment_log_start_offset(source.log_start_offset)

    # -- copying -----------------------------------------------------------------------------------------------------------------------

    def _copy(self, move: Move) -> None:
        limit = self._config.current.optional_integer("num.replica.alter.log.dirs.threads") or len(self._log_manager.directories)
        if self._copying >= limit:
            self._waiting.append(move)
            return
        wait_s = self._free_at - self._clock.monotonic()
        if wait_s > 0:
            if move.state is MoveState.HOLDING:
                wait_s = min(wait_s, move.hold_until - self._clock.monotonic())
            self._later(move, wait_s)
            return
        read = self._read(move)
        parts: list[bytes] = []
        self._copying += 1

        def load() -> None:
            parts.extend(piece.read(0, piece.size) for piece in read.slices)

        end = move.source.log_end_offset
        generations = move.source.generation, move.future.generation
        self._run_job(load).add_callback(lambda job: self._copied(move, read, b"".join(parts), end, generations, job.error))

    def _read(self, move: Move) -> LogRead:
        source = move.source
        return source.read(move.future.log_end_offset, max_bytes=self._piece, max_offset=source.log_end_offset, min_one_message=True)

    def _copied(self, move: Move, read: LogRead, data: bytes, end: int, generations: tuple[int, int], error: BaseException | None) -> None:
        read.release()
        self._copying -= 1
        while self._waiting and self._waiting[0].state is MoveState.ENDED:
            self._waiting.popleft()
        if self._waiting:
            self._later(self._waiting.popleft(), 0)
        if move.state is MoveState.ENDED:
            return
        if error is not None and not isinstance(error, StorageError):
            if isinstance(error, OSError):
                move.source.failed(error)
                if out_of_descriptors(error):
                    self._later(move, _FOLLOW_INTERVAL_S)
            else:
                logger.error("the move of %s failed", move.partition.topic_partition, exc_info=error)
                self.cancel(move.partition.topic_partition)
            return
        if error is None and (move.source.generation, move.future.generation) == generations:
            try:
                self._append(move, data)
            except KafkaError as problem:
                logger.error("the move of %s: %s", move.partition.topic_partition, problem)
                self._later(move, 1.0)
                return
            self._throttle(len(data))
            move.near = move.future.log_end_offset >= end
        if move.unflushed >= _FLUSH_EVERY:
            self._flush(move, lambda move: self._later(move, 0))
        else:
            self._later(move, 0)

    def _throttle(self, size: int) -> None:
        """replica.alter.log.dirs.io.max.bytes.per.second, over all moves together."""
        rate = self._config.integer("replica.alter.log.dirs.io.max.bytes.per.second")
        self._free_at = max(self._free_at, self._clock.monotonic()) + size / max(rate, 1)

    def _append(self, move: Move, data: bytes) -> None:
        future = move.future
        begin = self._clock.monotonic()
        try:
            future.append_as_follower(memoryview(data), _ANY_EPOCH)
        except UnexpectedAppendOffsetError as error:
            if future.log_end_offset != future.log_start_offset or not error.first_offset < future.log_end_offset <= error.last_offset:
                raise
            # The log start of the current log lies within a batch: an empty log begins with that batch.
            future.truncate_fully_and_start_at(error.first_offset)
            future.append_as_follower(memoryview(data), _ANY_EPOCH)
        move.unflushed += len(data)
        slow = self._clock.monotonic() - begin > _LONG_APPEND_S
        self._piece = max(self._piece // 2, _SMALLEST_PIECE) if slow else min(self._piece * 2, _LARGEST_PIECE)

    def _flush(self, move: Move, then: Callable[[Move], object], note: Callable[[], None] | None = None) -> None:
        """Makes the future log durable as it is now, in the executor."""
        future = move.future
        flush = future.begin_flush()
        if flush is None and note is None:
            then(move)
            return
        move.unflushed = 0

        def run() -> None:
            if note is not None:
                note()
            if flush is not None:
                flush.run(self._disk)

        def ran(job: Deferred[None]) -> None:
            if job.error is None:
                if flush is not None:
                    future.finish_flush(flush)
            else:
                if flush is not None:
                    future.give_back(flush)
                if move.state is MoveState.ENDED and isinstance(job.error, FileNotFoundError):
                    return  # the future log was deleted meanwhile
                if isinstance(job.error, OSError):
                    future.failed(job.error)
                if out_of_descriptors(job.error):
                    self._later(move, _FOLLOW_INTERVAL_S)
                elif move.state is not MoveState.ENDED:
                    self.stop(move.partition.topic_partition)
                return
            if move.state is not MoveState.ENDED:
                then(move)

        self._run_job(run).add_callback(ran)

    # -- changing places -----------------------------------------------------------------------------------------------------------------

    def _ask(self, move: Move) -> None:
        target = self._log_manager.directory(move.future.parent_directory)
        if self._assign is None or target is None or target.directory_id is None:
            move.become(MoveState.ASSIGNED)
            self._later(move, 0)
            return

        def answered(answer: Deferred[None]) -> None:
            if move.state is not MoveState.ASSIGNING:
                return
            if answer.error is None:
                move.become(MoveState.ASSIGNED)
            else:
                logger.error("the move of %s is given up: %s", move.partition.topic_partition, answer.error)
                self.cancel(move.partition.topic_partition)

        move.become(MoveState.ASSIGNING)
        self._assign(_identity(move.partition), target.directory_id).add_callback(answered)
        self._later(move, _FOLLOW_INTERVAL_S)

    def _hold(self, move: Move) -> None:
        move.become(MoveState.HOLDING)
        move.held = False
        move.hold_until = self._clock.monotonic() + _HOLD_S

        def held(_: Deferred[None]) -> None:
            if move.state is MoveState.HOLDING:
                move.held = True
                # What is durable in the current log by now has to be copied, too, before the future one is flushed.
                move.near = False

        self._flusher.hold(move.partition).add_callback(held)
        self._later(move, 0)

    def _hardened(self, move: Move) -> None:
        move.become(MoveState.FINAL)
        self._step(move)

    def _let_go(self, move: Move) -> None:
        """The partition's flushes have waited long enough."""
        self._flusher.release(move.partition)
        move.become(MoveState.ASSIGNED)
        self._later(move, _FOLLOW_INTERVAL_S)

    def _exchange(self, move: Move) -> None:
        source, future, partition = move.source, move.future, move.partition
        self._follow(move)
        for _ in range(_LAST_PIECES):
            if future.log_end_offset == source.log_end_offset:
                break
            # The page cache has it; should it not, this is one small read.
            read = self._read(move)
            try:
                self._append(move, b"".join([piece.read(0, piece.size) for piece in read.slices]))
            finally:
                read.release()
        if future.log_end_offset != source.log_end_offset:
            self._later(move, 0)
            return
        if future.recovery_point < source.recovery_point:
            self._let_go(move)
            return
        for epoch, start_offset in source.leader_epochs.entries:
            # Also those that no batch carries yet.
            if start_offset >= future.log_start_offset and epoch > future.latest_epoch:
                future.assign_epoch_start(epoch, start_offset)
        future.producer_state.adopt(source.producer_state)
        self._log_manager.replace_current_with_future(partition.topic_partition)
        del self.moves[partition.topic_partition]
        partition.log = future
        self._end(move)
        logger.info("%s has moved from %s to %s", partition.topic_partition, source.parent_directory, future.parent_directory)
        self._on_moved(partition)


def _identity(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.topic_partition.topic, partition.topic_partition.partition)


def check_destination(log_manager: LogManager, topic_partition: TopicPartition, path: str) -> None:
    """What AlterReplicaLogDirs asks of the directory: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR when it is offline,
    INVALID_REPLICA_ASSIGNMENT when it is cordoned.
    """
    directory = log_manager.directory(path)
    if directory is None or not directory.takes_logs:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
    if not directory.online:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
    if directory.cordoned:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned, so {topic_partition} cannot move there")
