"""Logs of a broker, in one or several log directories (Kafka's LogManager).

All methods are synchronous. The server schedules the tasks (`cleanup_steps`, `due_deletions`, checkpoints) at Kafka's intervals.
`DirectoryLoading.open` and `work`, `LogCreation.run` and `Deletion.run` may run in other threads, everything else runs on the loop.

A failed directory never makes a replica look new. `create_log` makes an empty log only for a replica that its caller knows to be new
(`is_new`), or while all directories are online. Otherwise the records may lie in the offline directory. A new replica whose directory fails
during the creation goes to another directory; the next start decides between the two logs (duplicates.py).

A missing file descriptor (`base.disk.out_of_descriptors`) does not fail a directory. The caller gets KAFKA_STORAGE_ERROR and tries again.
The log manager's own tasks try again at their next run. A start ends with the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, random_uuid
from odradek.storage.creation import LogCreation, MakeLog, Placement, WantedLog, make_log
from odradek.storage.deletions import Deletion, Doomed
from odradek.storage.duplicates import IsStray, claim
from odradek.storage.loading import DirectoryLoading, LoadProgress
from odradek.storage.log import Log
from odradek.storage.log_directory import CheckpointWrite, LogDirectory, lock_all, write_checkpoints
from odradek.storage.log_tables import LogTables
from odradek.storage.moves import Assigned, FinishedMove, exchange, settle_all
from odradek.storage.names import deleted_directory_name, directory_name, future_directory_name, stray_directory_name
from odradek.storage.new_names import PendingNames
from odradek.storage.options import PRODUCER_EXPIRATION_MS, LogOptions
from odradek.storage.truncation_flush import Hardening, plan_hardening

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.topic import TopicConfig
    from odradek.storage.compaction.hooks import CleanerHooks

logger = logging.getLogger(__name__)

_TOLD_EVERY_S = 10.0


class LogManager:
    """Logs of one broker; see the module's text.

    `on_directory_failure(path, error)` is called once for each directory that goes offline. After the last directory `online_directories`
    is empty, and the server has to act. `config` gives the defaults of topics.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directories: Sequence[str],
        config: BrokerConfig,
        *,
        random: Random,
        directory_ids: Mapping[str, UUID] | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        verify_transactions: bool = True,
        on_directory_failure: Callable[[str, Exception], None] | None = None,
        new_lock: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.config = config
        self._random = random
        self.new_lock = new_lock
        """Makes a lock for work that several threads do."""
        ids = directory_ids or {}
        self.directories = [LogDirectory(disk, path, ids.get(path), new_lock) for path in directories]
        self._tables = LogTables(self.directories)
        self.on_directory_failure = on_directory_failure
        self.on_shortened: Callable[[Log], object] | None = None
        """Called with each log whose start retention has raised."""
        self.options = LogOptions(
            producer_expiration_ms=producer_expiration_ms,
            verify_transactions=verify_transactions,
            jitter=lambda limit: random.randrange(limit) if limit > 0 else 0,
            on_io_error=self.on_io_error,
            on_truncated=self._truncated,
            write_checkpoints=self._checkpoint,
            new_lock=new_lock,
        )
        self._make_log: MakeLog = partial(make_log, disk, clock, self.options)
        self.on_created: Callable[[], None] | None = None
        """Called when a log was created, deleted or moved; `names.begin` should follow soon."""
        self.cleaner: CleanerHooks | None = None
        """Log cleaner, None when nothing is compacted."""
        self.on_truncated: Callable[[Log], None] | None = None
        """Called with each log that was truncated."""
        self._next_told = 0.0
        self.names = PendingNames(disk, self._tables)
        self.placement = Placement(self._tables)
        self._doomed = Doomed(disk, clock)
        self.strays: list[str] = []
        """Directories set aside because the metadata does not know their topic id."""

    # -- directories -------------------------------------------------------------------------------------------------------------

    def lock_directories(self) -> None:
        """Lock all directories, as `log_directory.lock_all`."""
        lock_all(self.directories, self.directory_failed)

    @property
    def online_directories(self) -> list[LogDirectory]:
        return self._tables.online_directories

    def directory(self, path: str) -> LogDirectory | None:
        """Return the log directory at `path`, online or not."""
        return self._tables.by_path.get(path)

    def cordon(self, paths: Collection[str]) -> None:
        """Cordon exactly the directories at `paths`: no new replica is placed in them (cordoned.log.dirs)."""
        for directory in self.directories:
            directory.cordoned = directory.path in paths

    @property
    def previous_broker_epoch(self) -> int:
        """Broker epoch of the last run if it ended cleanly in every directory, else -1 (for the registration, KIP-966)."""
        epochs = {directory.broker_epoch for directory in self.directories if directory.online}
        return epochs.pop() if len(epochs) == 1 else -1

    def on_io_error(self, log: Log, error: OSError) -> None:
        """Take the directory of a log offline whose disk failed."""
        self.directory_failed(log.parent_directory, error)

    def directory_failed(self, path: str, error: Exception) -> None:
        """Take a directory and its logs offline, once; nothing more is written there.

        A missing descriptor is only logged, at most once in ten seconds.
        """
        directory = self._tables.by_path[path]
        if directory.failure is not None:
            return
        if out_of_descriptors(error):
            now = self._clock.monotonic()
            if now >= self._next_told:
                self._next_told = now + _TOLD_EVERY_S
                logger.warning("No file descriptor was free; raise the limit (ulimit -n). The operation is retried: %s", error)
            return
        directory.failure = error
        logger.error("Log directory %s failed and goes offline: %s", path, error)
        if self.cleaner is not None:
            self.cleaner.directory_failed(path)
        for log in self._tables.take_all(directory):
            log.close_handles()
        directory.release()
        if self.on_directory_failure is not None:
            self.on_directory_failure(path, error)

    # -- loading -----------------------------------------------------------------------------------------------------------------

    def begin_loading(
        self,
        directory: LogDirectory,
        topic_config: Callable[[TopicPartition], TopicConfig],
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> DirectoryLoading:
        """Return the loading of one directory: run `open` and any number of `work` calls in threads, then call `adopt`."""
        return DirectoryLoading(self._disk, self._clock, directory, topic_config, self.options, self.new_lock(), on_progress)

    def adopt(
        self,
        loading: DirectoryLoading,
        is_stray: IsStray = lambda topic_partition, topic_id: False,
        assigned: Assigned = lambda topic_partition, topic_id: None,
    ) -> None:
        """Put the loaded logs into service. A directory in which loading failed goes offline.

        Raises StorageError when two directories hold the same partition and neither log can be preferred (duplicates.py), or when a
        directory inside is not a log.
        """
        directory = loading.directory
        loaded = loading.result()
        if isinstance(loaded, Exception) and out_of_descriptors(loaded):
            raise loaded
        self._doomed.add_directories(loading.doomed, 0)
        self.strays += loading.strays
        if isinstance(loaded, Exception):
            self.directory_failed(directory.path, loaded)
            return
        for log in loaded:
            # A log reports its directory as failed: the loading directory, or the one of the partition's other log.
            with suppress(KafkaError):
                loser, is_misplaced = claim(self._disk, self._tables, log, is_stray, assigned)
                if loser is not None:
                    (self._set_aside if is_misplaced else self._dispose)(loser)
            if not directory.online:
                log.close_handles()
        if any(log.recovery_point < directory.recovery_points.get(log.topic_partition, 0) for log in directory.logs.values()):
            # A log ends below its stored recovery point, as after a truncation that a crash interrupted. New records would count as flushed
            # up to that point.
            write = directory.begin_recovery_points()
            self.finish_checkpoints(write_checkpoints([] if write is None else [write]))

    def _set_aside(self, log: Log) -> None:
        logger.warning("%s does not belong to a replica of this broker: it is renamed with the suffix -stray", log.directory)
        log.close_handles()
        log.rename_directory(stray_directory_name(log.topic_partition, random_uuid(self._random)))
        self.strays.append(log.directory)

    # -- logs --------------------------------------------------------------------------------------------------------------------

    def get_log(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        """Return a log, None when it does not exist or its directory is offline."""
        return self._tables.get(topic_partition, future=future)

    @property
    def logs(self) -> Iterator[Log]:
        """Current logs in online directories."""
        return iter(list(self._tables.current.values()))

    def create_log(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: TopicConfig,
        *,
        directory_id: UUID | None = None,
        is_new: bool = False,
    ) -> Log:
        """Return the log, creating it if missing in the directory with `directory_id`, else in the one with the fewest logs.

        While a directory is offline, only the log of a replica that `is_new` is created: a replica that was just assigned to this broker.

        Raises KafkaError INCONSISTENT_TOPIC_ID when the log exists under another id, KAFKA_STORAGE_ERROR when no directory can hold it.
        """
        log = self._tables.get(topic_partition)
        if log is not None:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            log.update_config(config)
            return log
        while True:
            directory = self.placement.choose(topic_partition, directory_id, is_new=is_new)
            try:
                log = self._make(directory, directory_name(topic_partition), topic_partition, topic_id, config)
            except KafkaError as error:
                if not is_new or out_of_descriptors(error):
                    raise
                # The failed directory is offline now: another one may hold the log.
                continue
            self.placement.made(topic_partition)
            self._tables.put(log)
            return log

    def begin_creation(self, wanted: Iterable[WantedLog]) -> LogCreation | None:
        """Return an executor call that creates the missing logs, so that `create_log` finds them; None when there is nothing to create.

        A log that no directory can hold is left to `create_log`, which raises the error. Until `finish_creation` no log of these partitions
        may be created or deleted.
        """
        planned = self.placement.plan(wanted, self.directory_failed)
        return LogCreation(planned, self._make_log) if planned else None

    def finish_creation(self, creation: LogCreation) -> None:
        """Put the created logs into service, and take directories offline in which the creation failed."""
        for directory, _ in creation.planned:
            directory.logs_to_come -= 1
        for directory, error in creation.failed:
            self.directory_failed(directory.path, error)
        for directory, log in creation.made:
            if not directory.online:
                log.close_handles()
                continue
            # The settings may have changed since the creation began.
            options = self.options
            log.producer_state.update_settings(options.producer_expiration_ms, verify_transactions=options.verify_transactions)
            self.placement.made(log.topic_partition)
            self._tables.put(log)
            self.names.created(log)
        if creation.made:
            self._names_changed()

    def _make(self, directory: LogDirectory, name: str, topic_partition: TopicPartition, topic_id: UUID | None, config: TopicConfig) -> Log:
        try:
            directory.forget(topic_partition)
            log = self._make_log(f"{directory.path}/{name}", topic_partition, topic_id, config)
            self.names.created(log)
            self._names_changed()
        except OSError as error:
            self.directory_failed(directory.path, error)
            reason = f"The log of {topic_partition} cannot be created in {directory.path}: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason) from error
        return log

    def _names_changed(self) -> None:
        if self.on_created is not None:
            self.on_created()
        else:
            self.finish_checkpoints(write_checkpoints(self.names.begin()))

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Rename the log's directory to `-delete`; `due_deletions` removes it after file.delete.delay.ms. Unknown logs are no error.

        The future log is deleted, too. Names and checkpoints become durable with `names.begin`. Raises KafkaError KAFKA_STORAGE_ERROR
        when a directory fails; the log in the other directory is deleted nevertheless.
        """
        log = self._tables.take(topic_partition)
        try:
            self.delete_future_log(topic_partition)
        finally:
            if log is not None:
                if self.cleaner is not None:
                    self.cleaner.removed(topic_partition, log.parent_directory)
                self._dispose(log)

    def delete_future_log(self, topic_partition: TopicPartition) -> None:
        """Delete the future log only, as `delete_log` does."""
        log = self._tables.take(topic_partition, future=True)
        if log is not None:
            self._dispose(log)

    def _dispose(self, log: Log) -> None:
        """Delete a log that has been removed from the tables."""
        log.close_handles()
        log.rename_directory(deleted_directory_name(log.topic_partition, random_uuid(self._random)), durable=False)
        self._doomed.add_directories([log.directory], log.config.file_delete_delay_ms)
        self.names.left(log.parent_directory)
        self._names_changed()

    # -- moves between directories -----------------------------------------------------------------------------------------------

    def create_future_log(self, topic_partition: TopicPartition, topic_id: UUID | None, config: TopicConfig, path: str) -> Log:
        """Return the future log in the log directory at `path`, creating it if missing; the replica is copied to it before it moves.

        Raises KafkaError KAFKA_STORAGE_ERROR when that directory is offline or fails.
        """
        log = self._tables.get(topic_partition, future=True)
        if log is not None:
            return log
        directory = self._tables.by_path[path]
        if not directory.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        name = future_directory_name(topic_partition, random_uuid(self._random))
        log = self._make(directory, name, topic_partition, topic_id, config)
        self._tables.put(log)
        return log

    def replace_current_with_future(self, topic_partition: TopicPartition) -> Log:
        """Replace the current log by the future log, which holds the same records, and delete the current log.

        Runs on the loop, without fsync. Whichever of the two renames survives a crash, `adopt` and `settle_moves` follow the note that
        `moves.note_move` wrote. Until `names.begin` has made both renames durable, only records that were flushed to both logs may count as
        flushed.

        Raises KafkaError KAFKA_STORAGE_ERROR when a directory fails; the current log then stays in its place, unless its own directory
        failed.
        """
        current, future = exchange(self._tables, topic_partition, deleted_directory_name(topic_partition, random_uuid(self._random)))
        self._doomed.add_directories([current.directory], current.config.file_delete_delay_ms)
        source, target = current.parent_directory, future.parent_directory
        self.names.left(source, target)
        if self.cleaner is not None:
            self.cleaner.moved(topic_partition, source, target)
        self.names.moved(FinishedMove(self._disk, source, future.directory))
        self._names_changed()
        return future

    def settle_moves(self, assigned: Assigned) -> None:
        """Finish the moves that a crash interrupted (`moves.settle`), after all directories are loaded."""
        settle_all(self._disk, self._tables, assigned, self.on_io_error)

    def reconfigure(self, topic_config: Callable[[str], TopicConfig]) -> None:
        """Set the current configuration of its topic on every log, future logs included, unless the log has that same object."""
        for log in self._tables.all_logs():
            config = topic_config(log.topic_partition.topic)
            if log.config is not config:
                log.update_config(config)

    def update_producer_settings(self, expiration_ms: int, *, verify_transactions: bool) -> None:
        """Set producer.id.expiration.ms and transaction.partition.verification.enable for existing and later logs."""
        self.options.producer_expiration_ms = expiration_ms
        self.options.verify_transactions = verify_transactions
        for log in self._tables.all_logs():
            log.producer_state.update_settings(expiration_ms, verify_transactions=verify_transactions)

    # -- truncations ---------------------------------------------------------------------------------------------------------------

    def begin_hardening(self, logs: Iterable[Log]) -> Hardening | None:
        """Return the executor call that makes the truncations of these logs durable; None when no truncation is pending.

        Must be called in the loop iteration in which the logs were truncated.
        """
        return plan_hardening(self._disk, self._tables, logs)

    def finish_hardening(self, hardening: Hardening) -> None:
        """Process a finished executor call. A directory in which an operation failed goes offline."""
        hardening.finish()
        self.finish_checkpoints(hardening.failed_directories)

    # -- tasks -------------------------------------------------------------------------------------------------------------------

    def cleanup_steps(self) -> Iterator[tuple[Log, int]]:
        """Apply retention to all logs that are not compacted, one log a step (log.retention.check.interval.ms).

        Yields each log with the number of deleted segments, and closes the files of idle logs. The cleaner applies retention to compacted
        logs itself, so that it never reads a segment that is being deleted. Without a cleaner compacted logs are left alone.
        """
        for log in self._tables.all_logs():
            if log.closed:
                continue
            due = not log.config.compact if self.cleaner is None else self.cleaner.may_delete(log)
            deleted = self.delete_old_segments(log) if due else 0
            if not log.closed:
                log.rest()
            yield log, deleted

    def delete_old_segments(self, log: Log) -> int:
        """Apply retention to one log; return the number of deleted segments. A failing disk takes its directory offline."""
        try:
            deleted = log.delete_old_segments()
        except KafkaError as error:
            logger.error("%s: %s", log.name, error)
            return 0
        if deleted and self.on_shortened is not None:
            self.on_shortened(log)
        return deleted

    def expire_producers(self) -> None:
        """Remove expired producers from all logs (producer.id.expiration.check.interval.ms)."""
        for log in self.logs:
            log.producer_state.remove_expired(self._clock.time_ms())

    def logs_to_flush(self) -> list[Log]:
        """Return the logs that flush.messages or flush.ms requires to flush (log.flush.scheduler.interval.ms).

        The caller flushes each log with `begin_flush`, `Flush.run` and `finish_flush`.
        """
        now_ms = self._clock.time_ms()
        return [log for log in self.logs if log.needs_flush(now_ms)]

    def begin_recovery_points(self) -> list[CheckpointWrite]:
        """Return writes of the recovery points, for `write_checkpoints` in any thread (log.flush.offset.checkpoint.interval.ms)."""
        return [write for directory in self.online_directories if (write := directory.begin_recovery_points()) is not None]

    def begin_log_start_offsets(self) -> list[CheckpointWrite]:
        """Return writes of the log start offsets, for `write_checkpoints` (log.flush.start.offset.checkpoint.interval.ms)."""
        return [write for directory in self.online_directories if (write := directory.begin_log_start_offsets()) is not None]

    def finish_checkpoints(self, failed: Sequence[tuple[str, OSError]]) -> None:
        """Take the directories offline whose checkpoints could not be written."""
        for path, error in failed:
            self.directory_failed(path, error)

    def due_deletions(self, *, everything: bool = False) -> Deletion | None:
        """Return the deletion of the files and directories whose delay is over, None when there are none.

        Call it every few seconds; run the deletion in an executor.
        """
        for log in self._tables.all_logs():
            self._doomed.add_files(log.take_deletions(), log.config.file_delete_delay_ms)
        return self._doomed.take_due(everything=everything)

    def finish_deletion(self, deletion: Deletion) -> None:
        """Schedule the paths again that a deletion could not remove because no descriptor was free."""
        self._doomed.add_left(deletion)

    def _checkpoint(self, log: Log) -> None:
        self.finish_checkpoints(write_checkpoints(self._tables.by_path[log.parent_directory].begin_checkpoints()))

    def _truncated(self, log: Log) -> None:
        if self.cleaner is not None:
            self.cleaner.truncated(log)
        if self.on_truncated is not None:
            self.on_truncated(log)

    # -- shutdown ----------------------------------------------------------------------------------------------------------------

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write checkpoints and then the clean-shutdown marker, and release the locks.

        A directory in which any of this fails gets no marker: its next start recovers.
        """
        self.finish_checkpoints(write_checkpoints(self.names.begin()))
        for directory in self.online_directories:
            try:
                for log in list(directory.logs.values()) + list(directory.future_logs.values()):
                    log.close(durable=True)
                directory.write_recovery_points()
                directory.write_log_start_offsets()
                directory.write_clean_marker(broker_epoch)
            except OSError as error:
                self.directory_failed(directory.path, error)
            except KafkaError:
                # The log has reported its directory as failed.
                continue
            directory.release()
        self._tables.current.clear()
        self._tables.future.clear()
