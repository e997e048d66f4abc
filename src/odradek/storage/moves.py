"""The end of a replica's move between log directories, and how a start finishes a move that a crash cut short.

The future log takes the current one's place by two renames on the loop, without fsync: `<topic>-<partition>` to `-delete`, and `-future`
to `<topic>-<partition>`. Before them a durable note in the future log's directory names the log that it is about to replace; the note is
removed when both renames are durable. Whichever rename a power cut leaves, the note tells which of two logs counts, or that the only log
left may take the current one's place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.storage.common_prefix import common_end
from odradek.storage.log import Log
from odradek.storage.log_tables import LogTables
from odradek.storage.names import MOVED_FROM, directory_name

logger = logging.getLogger(__name__)

Assigned = Callable[[TopicPartition, UUID | None], UUID | None]
"""The log directory of a partition in the metadata, None for one that is not this broker's."""


class FinishedMove:
    """Makes durable that a replica has moved, the new name before the loss of the old one, and drops the note about it."""

    __slots__ = ("_disk", "_source", "_target", "directory")

    def __init__(self, disk: Disk, source: str, target: str) -> None:
        """`source` is the log directory that the replica left, `target` the directory of its log now."""
        self._disk = disk
        self._source = source
        self._target = target
        self.directory = target.rpartition("/")[0]

    def run(self) -> None:
        """OSError from the disk."""
        self.directory = self._target.rpartition("/")[0]
        self._disk.fsync_dir(self.directory)
        self.directory = self._source
        self._disk.fsync_dir(self._source)
        self.directory = self._target.rpartition("/")[0]
        drop_move_note(self._disk, self._target)


def note_move(disk: Disk, current: Log, future: Log) -> Callable[[], None]:
    """A function, for an executor, that writes a durable note that `future` is about to take the place of `current`."""
    note, source = f"{future.directory}/{MOVED_FROM}", current.directory
    return lambda: disk.write_atomic(note, source.encode())


def noted_source(disk: Disk, log: Log) -> str | None:
    """The directory of the log that this one replaces, None when no move was under way."""
    try:
        return disk.read_bytes(f"{log.directory}/{MOVED_FROM}").decode(errors="replace")
    except FileNotFoundError:
        return None


def drop_move_note(disk: Disk, directory: str) -> None:
    """Removes the note of a move from a partition's directory, durably; no error when there is none, or no directory any more."""
    note = f"{directory}/{MOVED_FROM}"
    if disk.exists(note):
        with suppress(FileNotFoundError):
            disk.remove(note)
            disk.fsync_dir(directory)


def exchange(tables: LogTables, topic_partition: TopicPartition, deleted_name: str) -> tuple[Log, Log]:
    """Puts the future log in the current one's place; returns the former current log, now called `deleted_name`, and the new one.

    KAFKA_STORAGE_ERROR when a directory fails; the current log then stays in its place, unless its own directory failed.
    """
    current, future = tables.current[topic_partition], tables.future[topic_partition]
    name = directory_name(topic_partition)
    current.rename_directory(deleted_name, durable=False)
    try:
        future.rename_directory(name, durable=False)
    except KafkaError:
        current.rename_directory(name, durable=False)
        raise
    # Records that are flushed to it from now on have to be found under its new name.
    future.owe_fsync(future.directory, name_only=True)
    future.update_high_watermark(current.high_watermark)
    tables.take(topic_partition, future=True)
    tables.take(topic_partition)
    tables.put(future)
    current.close_handles()
    return current, future


def settle(disk: Disk, tables: LogTables, future: Log, assigned: Assigned) -> None:
    """Settles a move that a crash cut short: `future` takes the current log's place, or is cut to what both share and copied further.

    It takes that place when the current log is gone: renamed by an exchange that the crash cut short, or lost while the metadata names the
    future log's directory already (LogManager.recoverAbandonedFutureLogs). Not while the current log may be in an offline directory.
    """
    topic_partition = future.topic_partition
    current = tables.get(topic_partition)
    if current is not None:
        drop_move_note(disk, future.directory)
        end = common_end(current, future)
        if end < future.log_end_offset:
            future.truncate_to(end)
    elif _may_promote(disk, tables, future, assigned):
        logger.warning("%s takes the place of the log of %s, which is gone", future.directory, topic_partition)
        future.rename_directory(directory_name(topic_partition))
        drop_move_note(disk, future.directory)
        tables.take(topic_partition, future=True)
        tables.put(future)


def _may_promote(disk: Disk, tables: LogTables, future: Log, assigned: Assigned) -> bool:
    source = noted_source(disk, future)
    if source is not None:
        left = tables.by_path.get(source.rpartition("/")[0])
        return left is None or left.online
    wanted = assigned(future.topic_partition, future.topic_id)
    directory = tables.by_path[future.parent_directory]
    return wanted is not None and wanted == directory.directory_id and len(tables.online_directories) == len(tables.directories)
