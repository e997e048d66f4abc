"""Moves of replicas between the log directories of this broker while they are served (AlterReplicaLogDirs, KIP-113 and KIP-858).

1. A future log `<topic>-<partition>.<hash>-future` is created in the target directory.
2. It is filled from the current log with unchanged batches. Then it follows the current log: appends, truncations, log start, high
   watermark.
3. Once caught up, the future log is flushed. Then the controller is told the new directory (AssignReplicasToDirs) and has to agree.
4. From now on no flush of the partition begins, so that no further records count as durable. The durable records of the current log are
   made durable in the future log, with a note of the coming exchange.
5. The rest is copied and the two logs are exchanged: two renames, within one loop iteration. Flushes continue on the new log. The executor
   makes the names durable, and the old log is deleted like any other.

A crash before step 5 leaves two logs, and the move continues after the restart. `LogManager.settle_moves` handles a crash in step 5.
(kafka.server.ReplicaAlterLogDirsThread, ReplicaAlterLogDirsManager)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.base.timing import Alarm
from odradek.config.keys.replication import NUM_REPLICA_ALTER_LOG_DIRS_THREADS
from odradek.config.keys.run_time import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from odradek.replication.flushing import Flusher, RunJob
from odradek.storage.append import UnexpectedAppendOffsetError
from odradek.storage.common_prefix import common_end
from odradek.storage.moves import note_move

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.replication.partition import Partition
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager
    from odradek.storage.reading import LogRead

logger = logging.getLogger(__name__)

AssignDirectory = Callable[[TopicIdPartition, UUID], Deferred[None]]
"""Function that tells the controller the directory of a replica of this broker; done when the metadata has it."""

_SMALLEST_PIECE, _LARGEST_PIECE = 64 * 1024, 4 * 1024 * 1024
_LONG_APPEND_S = 0.005
"""Seconds of an append after which fewer bytes are copied at a time. Small batches take longer to append, and an append blocks the loop."""
_LAST_PIECES = 4
"""Most chunks that are copied within the loop iteration that exchanges the logs."""
_FOLLOW_INTERVAL_S = 0.02
"""Seconds between two looks of a future log that is caught up."""
_HOLD_S = 2.0
"""Seconds that the flushes of a partition wait for the exchange. After that they continue and the exchange is tried again."""
_FLUSH_EVERY = 64 * 1024 * 1024
_ANY_EPOCH = 0x7FFFFFFF
_OWNER = "moves"
"""Name under which the cleaning of a moving partition is paused."""


class MoveState(Enum):
    """State of a move."""

    COPYING = "copying"
    ASSIGNING = "assigning"
    """The future log is caught up, and the controller has been asked."""
    ASSIGNED = "assigned"
    """The metadata has the new directory."""
    HOLDING = "holding"
    """The flushes of the partition wait for the exchange."""
    FINAL = "final"
    """The durable records of the current log are durable in the future log."""
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
    """Move of one replica."""

    __slots__ = (
        "alarm",
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
        "unflushed",
    )

    alarm: Alarm
    """Alarm of the next step."""

    def __init__(self, partition: Partition, source: Log, future: Log, origin: UUID | None) -> None:
        self.partition = partition
        self.source = source
        self.future = future
        self.origin = origin
        """Directory id of the current log, which the controller is told if the move ends early."""
        self.state = MoveState.COPYING
        self.generation = source.generation
        self.cut_to: int | None = None
        """Lowest log end to which the current log was truncated since the future log was."""
        self.near = False
        """Whether the last chunk reached the end that the current log had when the chunk was read."""
        self.unflushed = 0
        """Bytes copied since the last flush."""
        self.held = False
        """Whether no flush of the partition is in progress, and none begins."""
        self.hold_until = 0.0

    def become(self, state: MoveState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"the move of {self.partition.topic_partition} cannot change from {self.state.value} to {state.value}")
        self.state = state


class FutureReplicas:
    """Moves of a broker. `alter` begins, changes or cancels a move; other methods report events."""

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
        """Create the moves. Without `assign` (metadata that records no directories) replicas move without asking.

        `on_moved` is called after each completed move.
        """
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
        """Monotonic seconds when the throttle allows the next chunk."""
        log_manager.on_truncated = self._truncated

    # -- beginning and ending --------------------------------------------------------------------------------------------------------

    def alter(self, partition: Partition, path: str) -> None:
        """Move the replica to the log directory at `path`, which is online. A move to its current directory cancels.

        Raises KAFKA_STORAGE_ERROR when a directory fails, and NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR while the partition has no log
        here.
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
        """Continue a move whose logs exist, even from before a restart. Does nothing without a future log, or during the move."""
        topic_partition = partition.topic_partition
        future = self._log_manager.get_log(topic_partition, future=True)
        source = partition.log
        if future is None or source is None or topic_partition in self.moves:
            return
        directory = self._log_manager.directory(source.parent_directory)
        move = self.moves[topic_partition] = Move(partition, source, future, None if directory is None else directory.directory_id)
        move.alarm = Alarm(self._clock, lambda: self._step(move))
        if self._log_manager.cleaner is not None:
            # Records that are compacted while they are copied would never be compacted again.
            self._log_manager.cleaner.pause(topic_partition, _OWNER)
        logger.info("%s moves from %s to %s", topic_partition, source.parent_directory, future.parent_directory)
        self._later(move, 0)

    def cancel(self, topic_partition: TopicPartition) -> None:
        """End the move and delete the future log. The controller is told where the replica stays."""
        self.stop(topic_partition)
        self._log_manager.delete_future_log(topic_partition)

    def stop(self, topic_partition: TopicPartition, *, gone: bool = False) -> None:
        """End the move, if any, and leave its files alone. `gone` says that this broker no longer hosts the partition."""
        move = self.moves.pop(topic_partition, None)
        if move is None:
            return
        told = move.state in (MoveState.ASSIGNING, MoveState.ASSIGNED, MoveState.HOLDING, MoveState.FINAL)
        self._end(move)
        if told and not gone and move.origin is not None and self._assign is not None:
            self._assign(_identity(move.partition), move.origin)

    def directory_failed(self, path: str) -> None:
        """End the moves from and to this log directory."""
        for topic_partition, move in list(self.moves.items()):
            if path in (move.source.parent_directory, move.future.parent_directory):
                logger.error("the move of %s ends with log directory %s", topic_partition, path)
                self.stop(topic_partition)

    def close(self) -> None:
        """Stop copying at shutdown, without telling the controller. The next start continues the moves."""
        for move in list(self.moves.values()):
            self._end(move)
        self.moves.clear()

    def _end(self, move: Move) -> None:
        move.alarm.close()
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

    # -- steps -------------------------------------------------------------------------------------------------------------------------

    def _later(self, move: Move, delay_s: float) -> None:
        move.alarm.set(delay_s)

    def _step(self, move: Move) -> None:
        if move.state is MoveState.ENDED:
            return
        try:
            self._go_on(move)
        except KafkaError as error:
            # A failed directory has ended the move. Any other error comes from a change of the current log (truncation, new log start): try
            # again.
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
            self._flush(move, self._hardened, note_move(self._disk, source, future))
        else:
            self._later(move, _FOLLOW_INTERVAL_S)

    def _follow(self, move: Move) -> None:
        """Apply truncations, high watermark and log start of the current log to the future log."""
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
        limit = self._config.current[NUM_REPLICA_ALTER_LOG_DIRS_THREADS] or len(self._log_manager.directories)
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
        """Delay the next chunk: replica.alter.log.dirs.io.max.bytes.per.second holds for all moves together."""
        rate = self._config[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND]
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
        """Make the current content of the future log durable in the executor, then call `then`. `note` runs before the flush."""
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
                    future.durability.give_back(flush)
                if move.state is MoveState.ENDED and isinstance(job.error, FileNotFoundError):
                    return  # the future log was deleted during the flush
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

    # -- exchange of the logs ------------------------------------------------------------------------------------------------------------

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
                logger.error("the move of %s is abandoned: %s", move.partition.topic_partition, answer.error)
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
                # Records that have become durable in the current log must be copied as well, before the future log is flushed.
                move.near = False

        self._flusher.hold(move.partition).add_callback(held)
        self._later(move, 0)

    def _hardened(self, move: Move) -> None:
        move.become(MoveState.FINAL)
        self._step(move)

    def _let_go(self, move: Move) -> None:
        """End the hold of the partition's flushes, which have waited long enough."""
        self._flusher.release(move.partition)
        move.become(MoveState.ASSIGNED)
        self._later(move, _FOLLOW_INTERVAL_S)

    def _exchange(self, move: Move) -> None:
        source, future, partition = move.source, move.future, move.partition
        self._follow(move)
        for _ in range(_LAST_PIECES):
            if future.log_end_offset == source.log_end_offset:
                break
            # The page cache has these bytes; otherwise this is one small read.
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
            # Include epochs that no batch has yet.
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
    """Check the target directory of AlterReplicaLogDirs.

    Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR when the directory is offline, and INVALID_REPLICA_ASSIGNMENT when it is cordoned.
    """
    directory = log_manager.directory(path)
    if directory is None or not directory.takes_logs:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
    if not directory.online:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
    if directory.cordoned:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned, so {topic_partition} cannot move there")
