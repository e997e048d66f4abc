"""All logs of a broker, over one or several log directories (Kafka's LogManager).

Every method is synchronous. The server schedules the tasks (`cleanup`, `checkpoint_*`, `flush_due`, `run_deletions`) at Kafka's intervals;
`DirectoryLoading.open` and `work` and `Deletion.run` may run in threads of their own, everything else on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition, random_uuid
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.loader import PRODUCER_EXPIRATION_MS, LogOptions, load_log
from odradek.storage.loading import DirectoryLoading, LoadProgress
from odradek.storage.log import Log
from odradek.storage.log_directory import CheckpointWrite, LogDirectory, NewNames, write_checkpoints
from odradek.storage.names import (
    FUTURE_DIR_SUFFIX,
    PARTITION_METADATA,
    deleted_directory_name,
    directory_name,
    stray_directory_name,
)

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.config.topic import TopicConfig

logger = logging.getLogger(__name__)

class Deletion:
    """Files and directories whose time has come; `run` may take long and belongs into an executor. Errors are logged and returned."""

    __slots__ = ("_directories", "_disk", "_files")

    def __init__(self, disk: Disk, files: list[str], directories: list[str]) -> None:
        self._disk = disk
        self._files = files
        self._directories = directories

    def run(self) -> list[OSError]:
        errors: list[OSError] = []
        for path in self._files:
            try:
                if self._disk.exists(path):
                    self._disk.remove(path)
            except OSError as error:
                errors.append(error)
        for path in self._directories:
            try:
                self._disk.rmtree(path)
            except OSError as error:
                errors.append(error)
        for failure in errors:
            logger.error("Deleting failed: %s", failure)
        return errors


class LogManager:
    """See the module's text.

    `on_directory_failure(path, error)` is told once for each directory that goes offline; the last one going is for the server to act on
    (`online_directories` is then empty). `config` gives the defaults of topics.
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
        on_roll: Callable[[Log], None] | None = None,
        new_lock: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.config = config
        self._random = random
        self._new_lock = new_lock
        ids = directory_ids or {}
        self.directories = [LogDirectory(disk, path, ids.get(path), new_lock) for path in directories]
        self._by_path = {directory.path: directory for directory in self.directories}
        self._logs: dict[TopicPartition, Log] = {}
        self._future_logs: dict[TopicPartition, Log] = {}
        self.on_directory_failure = on_directory_failure
        self.on_roll = on_roll
        self._options = LogOptions(
            producer_expiration_ms=producer_expiration_ms,
            verify_transactions=verify_transactions,
            jitter=lambda limit: random.randrange(limit) if limit > 0 else 0,
            on_io_error=self.on_io_error,
            on_roll=self._rolled,
            on_truncated=self._truncated,
        )
        self.on_created: Callable[[], None] | None = None
        """Called for each new log; `begin_new_names` should follow soon."""
        self._new_logs: list[Log] = []
        self._doomed_files: list[tuple[int, str]] = []
        """(due time in ms, path)"""
        self._doomed_directories: list[tuple[int, str]] = []
        self.strays: list[str] = []
        """Directories set aside because the metadata does not know their topic id."""

    # -- directories -------------------------------------------------------------------------------------------------------------

    def lock_directories(self) -> None:
        """Takes every `.lock`. StorageError when one is held by another process; a directory that fails otherwise goes offline."""
        for directory in self.directories:
            try:
                directory.take_lock()
            except OSError as error:
                self.directory_failed(directory.path, error)
        if not self.online_directories:
            raise StorageError("None of the log directories can be used: " + "; ".join(f"{d.path}: {d.failure}" for d in self.directories))

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.online]

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last run if it ended cleanly in every directory, else -1 (for the registration, KIP-966)."""
        epochs = {directory.broker_epoch for directory in self.directories if directory.online}
        return epochs.pop() if len(epochs) == 1 else -1

    def on_io_error(self, log: Log, error: OSError) -> None:
        """A log's disk failed: its directory goes offline."""
        self.directory_failed(log.parent_directory, error)

    def directory_failed(self, path: str, error: Exception) -> None:
        """Takes a directory and its logs offline, once; nothing more is written there."""
        directory = self._by_path[path]
        if directory.failure is not None:
            return
        directory.failure = error
        logger.error("Log directory %s failed and goes offline: %s", path, error)
        for logs, mine in ((self._logs, directory.logs), (self._future_logs, directory.future_logs)):
            for topic_partition, log in mine.items():
                log.close_handles()
                logs.pop(topic_partition, None)
            mine.clear()
        directory.release()
        if self.on_directory_failure is not None:
            self.on_directory_failure(path, error)

    # -- loading -----------------------------------------------------------------------------------------------------------------

    def load(
        self,
        topic_config: Callable[[TopicPartition], TopicConfig],
        *,
        is_stray: Callable[[TopicPartition, UUID | None], bool] = lambda topic_partition, topic_id: False,
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> None:
        """Locks and loads every directory, one after the other. To load them side by side use the steps below."""
        self.lock_directories()
        for directory in self.online_directories:
            loading = self.begin_loading(directory, topic_config, on_progress)
            loading.open()
            loading.work()
            self.adopt(loading, is_stray)

    def begin_loading(
        self,
        directory: LogDirectory,
        topic_config: Callable[[TopicPartition], TopicConfig],
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> DirectoryLoading:
        """The loading of one directory: `open` and any number of `work`s belong into threads, `adopt` takes what they made."""
        return DirectoryLoading(self._disk, self._clock, directory, topic_config, self._options, self._new_lock(), on_progress)

    def adopt(
        self,
        loading: DirectoryLoading,
        is_stray: Callable[[TopicPartition, UUID | None], bool] = lambda topic_partition, topic_id: False,
    ) -> None:
        """Takes what was loaded into service; a directory in which loading failed goes offline. StorageError when two directories hold
        the same partition, or one holds what is no log.
        """
        directory = loading.directory
        loaded = loading.result()
        self._doomed_directories += [(self._clock.time_ms(), path) for path in loading.doomed]
        self.strays += loading.strays
        if isinstance(loaded, Exception):
            self.directory_failed(directory.path, loaded)
            return
        for log in loaded:
            future = log.is_future
            if not future and is_stray(log.topic_partition, log.topic_id):
                self._set_aside(log)
                continue
            logs, mine = (self._future_logs, directory.future_logs) if future else (self._logs, directory.logs)
            other = logs.get(log.topic_partition)
            if other is not None:
                raise StorageError(
                    f"Duplicate log directories for {log.topic_partition}: {other.directory} and {log.directory}. Remove one of them."
                )
            logs[log.topic_partition] = log
            mine[log.topic_partition] = log

    def _set_aside(self, log: Log) -> None:
        logger.warning("%s belongs to no replica of this broker: set aside with the suffix -stray", log.directory)
        log.close_handles()
        log.rename_directory(stray_directory_name(log.topic_partition, random_uuid(self._random)))
        self.strays.append(log.directory)

    # -- logs --------------------------------------------------------------------------------------------------------------------

    def get_log(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        """The log, None when there is none or its directory is offline."""
        return (self._future_logs if future else self._logs).get(topic_partition)

    @property
    def logs(self) -> Iterator[Log]:
        """All current logs in directories that work."""
        return iter(list(self._logs.values()))

    def create_log(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: TopicConfig, *, directory_id: UUID | None = None
    ) -> Log:
        """The log, made if missing: in the directory with `directory_id`, else in the one with the fewest logs.

        KafkaError INCONSISTENT_TOPIC_ID when it exists under another id, KAFKA_STORAGE_ERROR when no directory can take it.
        """
        log = self._logs.get(topic_partition)
        if log is not None:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            log.update_config(config)
            return log
        directory = self._choose(topic_partition, directory_id)
        path = f"{directory.path}/{directory_name(topic_partition)}"
        try:
            self._disk.makedirs(path)
            if topic_id is not None:
                write_partition_metadata(self._disk, f"{path}/{PARTITION_METADATA}", topic_id, durable=False)
            log = load_log(self._disk, self._clock, topic_partition, path, config, clean=True, options=self._options)
            # A directory that a power cut takes is made again from the metadata; what must not go alone are records.
            log.owe_fsync(f"{path}/{PARTITION_METADATA}")
            log.owe_fsync(path, name_only=True)
            self._new_logs.append(log)
            if self.on_created is not None:
                self.on_created()
        except OSError as error:
            self.directory_failed(directory.path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic_partition} cannot be created in {path}: {error}") from error
        self._logs[topic_partition] = directory.logs[topic_partition] = log
        return log

    def _choose(self, topic_partition: TopicPartition, directory_id: UUID | None) -> LogDirectory:
        online = self.online_directories
        if directory_id is not None:
            for directory in online:
                if directory.directory_id == directory_id:
                    return directory
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No log directory is online to hold {topic_partition}")
        return min(online, key=lambda directory: len(directory.logs) + len(directory.future_logs))

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Renames the log's directory to `-delete`; `due_deletions` removes it after file.delete.delay.ms. Unknown logs are no error."""
        for logs, future in ((self._logs, False), (self._future_logs, True)):
            log = logs.pop(topic_partition, None)
            if log is None:
                continue
            directory = self._by_path[log.parent_directory]
            (directory.future_logs if future else directory.logs).pop(topic_partition, None)
            log.close_handles()
            log.rename_directory(deleted_directory_name(topic_partition, random_uuid(self._random)))
            self._doomed_directories.append((self._clock.time_ms() + log.config.file_delete_delay_ms, log.directory))
            try:
                directory.write_recovery_points()
                directory.write_log_start_offsets()
            except OSError as error:
                self.directory_failed(directory.path, error)

    def reconfigure(self, topic_config: Callable[[str], TopicConfig]) -> None:
        """Gives every log, future ones too, the configuration of its topic as it is now; equal ones by identity are left alone."""
        for log in [*self._logs.values(), *self._future_logs.values()]:
            config = topic_config(log.topic_partition.topic)
            if log.config is not config:
                log.update_config(config)

    def update_producer_settings(self, expiration_ms: int, *, verify_transactions: bool) -> None:
        """producer.id.expiration.ms and transaction.partition.verification.enable, for the logs there are and those to come."""
        self._options.producer_expiration_ms = expiration_ms
        self._options.verify_transactions = verify_transactions
        for log in [*self._logs.values(), *self._future_logs.values()]:
            log.producer_state.update_settings(expiration_ms, verify_transactions=verify_transactions)

    # -- tasks -------------------------------------------------------------------------------------------------------------------

    def cleanup(self) -> int:
        """Retention over all logs (log.retention.check.interval.ms); how many segments were dropped."""
        deleted = 0
        for log in self.logs:
            if not log.config.compact or log.config.delete:
                deleted += self._each(log, log.delete_old_segments)
        return deleted

    def _each(self, log: Log, task: Callable[[], int]) -> int:
        """A failing disk takes its directory offline and leaves the other logs alone."""
        try:
            return task()
        except KafkaError as error:
            logger.error("%s: %s", log.name, error)
            return 0

    def expire_producers(self) -> None:
        """producer.id.expiration.check.interval.ms."""
        for log in self.logs:
            log.remove_expired_producers()

    def logs_to_flush(self) -> list[Log]:
        """Logs that flush.messages or flush.ms wants flushed (log.flush.scheduler.interval.ms); flush them with begin, run, finish."""
        now_ms = self._clock.time_ms()
        return [log for log in self.logs if log.needs_flush(now_ms)]

    def checkpoint_recovery_points(self) -> None:
        """All in one, on this thread; see `begin_recovery_points`."""
        self.finish_checkpoints(write_checkpoints(self.begin_recovery_points()))

    def checkpoint_log_start_offsets(self) -> None:
        """All in one, on this thread; see `begin_log_start_offsets`."""
        self.finish_checkpoints(write_checkpoints(self.begin_log_start_offsets()))

    def begin_recovery_points(self) -> list[CheckpointWrite]:
        """log.flush.offset.checkpoint.interval.ms: what is to be written by `write_checkpoints`, which may run in another thread."""
        return [write for directory in self.online_directories if (write := directory.begin_recovery_points()) is not None]

    def begin_log_start_offsets(self) -> list[CheckpointWrite]:
        """log.flush.start.offset.checkpoint.interval.ms; as `begin_recovery_points`."""
        return [write for directory in self.online_directories if (write := directory.begin_log_start_offsets()) is not None]

    def begin_new_names(self) -> list[NewNames]:
        """What makes the logs durable that were created since the last call, one for each directory; for `write_checkpoints`."""
        found: dict[str, NewNames] = {}
        for log in self._new_logs:
            if self._logs.get(log.topic_partition) is log:
                found.setdefault(log.parent_directory, NewNames(self._disk, log.parent_directory)).add(*log.unsynced_paths)
        self._new_logs.clear()
        return list(found.values())

    def finish_checkpoints(self, failed: Sequence[tuple[str, OSError]]) -> None:
        """Takes the directories offline whose checkpoints could not be written."""
        for path, error in failed:
            self.directory_failed(path, error)

    def _write(self, directory: LogDirectory, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self.directory_failed(directory.path, error)

    def due_deletions(self, *, everything: bool = False) -> Deletion | None:
        """What may be removed for good now; None when there is nothing. Call every few seconds, run it in an executor."""
        now_ms = self._clock.time_ms()
        for log in self.logs:
            due_ms = now_ms + log.config.file_delete_delay_ms
            self._doomed_files += [(due_ms, path) for path in log.take_deletions()]
        files = [path for due_ms, path in self._doomed_files if everything or due_ms <= now_ms]
        directories = [path for due_ms, path in self._doomed_directories if everything or due_ms <= now_ms]
        if not files and not directories:
            return None
        self._doomed_files = [entry for entry in self._doomed_files if not everything and entry[0] > now_ms]
        self._doomed_directories = [entry for entry in self._doomed_directories if not everything and entry[0] > now_ms]
        return Deletion(self._disk, files, directories)

    def _rolled(self, log: Log) -> None:
        if self.on_roll is not None:
            self.on_roll(log)

    def _truncated(self, log: Log) -> None:
        directory = self._by_path[log.parent_directory]
        self._write(directory, directory.write_recovery_points)
        self._write(directory, directory.write_log_start_offsets)

    # -- shutdown ----------------------------------------------------------------------------------------------------------------

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flushes and closes all logs, writes checkpoints and then the clean-shutdown marker, and lets the locks go.

        A directory in which any of this fails gets no marker: its next start recovers.
        """
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
        self._logs.clear()
        self._future_logs.clear()


def is_future_name(name: str) -> bool:
    """Whether a directory is that of a replica being moved here."""
    return name.endswith(FUTURE_DIR_SUFFIX)
