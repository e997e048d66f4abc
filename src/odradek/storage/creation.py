"""Creation of the logs of new partitions: choice of the log directory, and work in another thread.

A log takes six file system calls, which last a millisecond on a busy disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import write_partition_metadata
from odradek.storage.loader import load_log
from odradek.storage.names import PARTITION_METADATA, directory_name

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory
    from odradek.storage.log_tables import LogTables
    from odradek.storage.options import LogOptions

_LAST_RESERVED_ID = 99
"""Largest reserved directory id: reserved ids stand for unassigned and lost (DirectoryId)."""
_PREFERRED_KEPT = 10_000


class WantedLog(NamedTuple):
    """Arguments of `LogManager.create_log`."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    config: TopicConfig
    directory_id: UUID | None = None
    is_new: bool = False


MakeLog = Callable[[str, TopicPartition, UUID | None, "TopicConfig"], "Log"]
"""Function that makes the log of a partition in the directory at a path."""


def make_log(
    disk: Disk, clock: Clock, options: LogOptions, path: str, topic_partition: TopicPartition, topic_id: UUID | None, config: TopicConfig
) -> Log:
    """Create the files of a log in the directory at `path`; may run in any thread. Raises OSError from the disk."""
    disk.makedirs(path)
    if topic_id is not None:
        write_partition_metadata(disk, f"{path}/{PARTITION_METADATA}", topic_id, durable=False)
    log = load_log(disk, clock, topic_partition, path, config, clean=True, options=options)
    # A directory lost in a power cut is created again from the metadata: it must be durable only when it holds records.
    log.durability.owe(f"{path}/{PARTITION_METADATA}")
    log.durability.owe(path, name_only=True)
    return log


class Placement:
    """Choice of the log directory for a new log."""

    __slots__ = ("_preferred", "_tables")

    def __init__(self, tables: LogTables) -> None:
        self._tables = tables
        self._preferred: dict[TopicPartition, str] = {}

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Remember the log directory for a partition that may be assigned to this broker later. No effect when its log exists."""
        if topic_partition not in self._tables.current:
            if len(self._preferred) >= _PREFERRED_KEPT:
                del self._preferred[next(iter(self._preferred))]
            self._preferred[topic_partition] = path

    def made(self, topic_partition: TopicPartition) -> None:
        """Forget the preferred directory of a partition, whose log exists now."""
        self._preferred.pop(topic_partition, None)

    def choose(self, topic_partition: TopicPartition, directory_id: UUID | None, *, is_new: bool) -> LogDirectory:
        """Return the online directory for a new log. Raises KafkaError KAFKA_STORAGE_ERROR as `LogManager.create_log`."""
        candidates = [directory for directory in self._tables.directories if directory.takes_logs]
        online = [directory for directory in candidates if directory.online]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"All log directories that could hold {topic_partition} are offline")
        named = next((each for each in online if directory_id is not None and each.directory_id == directory_id), None)
        if len(online) < len(candidates):
            elsewhere = named is None and directory_id is not None and directory_id.int > _LAST_RESERVED_ID
            if elsewhere or not is_new or topic_partition in self._tables.future:
                offline = ", ".join([each.path for each in candidates if not each.online])
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"The records of {topic_partition} may be in a log directory that is offline: {offline}"
                )
        if named is not None:
            return named
        wanted = self._preferred.get(topic_partition)
        if wanted is not None and self._tables.by_path[wanted] in online:
            return self._tables.by_path[wanted]
        # With all directories cordoned the replica still needs a directory, as in Kafka.
        free = [directory for directory in online if not directory.cordoned] or online[:1]
        return min(free, key=lambda directory: len(directory.logs) + len(directory.future_logs) + directory.logs_to_come)

    def plan(self, wanted: Iterable[WantedLog], failed: Callable[[str, OSError], object]) -> list[tuple[LogDirectory, WantedLog]]:
        """Return the missing logs that a directory can hold, and count them as `logs_to_come` there. `failed` is told of a failing disk."""
        planned: list[tuple[LogDirectory, WantedLog]] = []
        for each in wanted:
            if each.topic_partition in self._tables.current:
                continue
            try:
                directory = self.choose(each.topic_partition, each.directory_id, is_new=each.is_new)
            except KafkaError:
                continue
            try:
                directory.forget(each.topic_partition)
            except OSError as error:
                failed(directory.path, error)
                continue
            directory.logs_to_come += 1
            planned.append((directory, each))
        return planned


class LogCreation:
    """Logs to create in one executor call.

    The log manager begins and finishes the creation on the loop. In between, `run` is called once, in any thread.
    """

    __slots__ = ("_make", "failed", "made", "planned")

    def __init__(self, planned: list[tuple[LogDirectory, WantedLog]], make: MakeLog) -> None:
        self.planned = planned
        self._make = make
        self.made: list[tuple[LogDirectory, Log]] = []
        self.failed: list[tuple[LogDirectory, OSError]] = []
        """At most one error for each directory: after the first error `run` creates no more logs there."""

    def run(self) -> None:
        """Create the logs in order.

        Errors other than OSError are ignored here; `LogManager.create_log` meets them again.
        """
        failed: set[str] = set()
        for directory, wanted in self.planned:
            if directory.path in failed:
                continue
            try:
                path = f"{directory.path}/{directory_name(wanted.topic_partition)}"
                self.made.append((directory, self._make(path, wanted.topic_partition, wanted.topic_id, wanted.config)))
            except OSError as error:
                failed.add(directory.path)
                self.failed.append((directory, error))
            except Exception:
                continue
