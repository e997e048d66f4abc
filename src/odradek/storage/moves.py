"""End of a replica's move between log directories, and completion of a move that a crash interrupted.

The future log replaces the current one by two renames on the loop, without fsync: `<topic>-<partition>` to `-delete`, and `-future` to
`<topic>-<partition>`. Before the renames a durable note in the future log's directory names the log to be replaced. The note is removed
when both renames are durable. Whichever rename survives a power cut, the note shows which of two logs counts, or that the only remaining
log may replace the current one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.storage.common_prefix import common_end
from odradek.storage.log import Log
from odradek.storage.log_tables import LogTables
from odradek.storage.names import MOVED_FROM, directory_name

logger = logging.getLogger(__name__)

Assigned = Callable[[TopicPartition, UUID | None], UUID | None]
"""Function that returns a partition's log directory in the metadata, None for a partition that is not on this broker."""


class FinishedMove:
    """Fsyncs after a replica's move: first the new name, then the removal of the old one, then the note is removed."""

    __slots__ = ("_disk", "_source", "_target", "directory")

    def __init__(self, disk: Disk, source: str, target: str) -> None:
        """`source` is the log directory that the replica left, `target` the directory of its log now."""
        self._disk = disk
        self._source = source
        self._target = target
        self.directory = target.rpartition("/")[0]

    def run(self) -> None:
        """Make the move durable and remove its note. Raises OSError from the disk."""
        self.directory = self._target.rpartition("/")[0]
        self._disk.fsync_dir(self.directory)
        self.directory = self._source
        self._disk.fsync_dir(self._source)
        self.directory = self._target.rpartition("/")[0]
        drop_move_note(self._disk, self._target)


def note_move(disk: Disk, current: Log, future: Log) -> Callable[[], None]:
    """Return a function, for an executor, that writes a durable note that `future` is about to replace `current`."""
    note, source = f"{future.directory}/{MOVED_FROM}", current.directory
    return lambda: disk.write_atomic(note, source.encode())


def noted_source(disk: Disk, log: Log) -> str | None:
    """Return the directory of the log that `log` replaces, None when no move was in progress."""
    try:
        return disk.read_bytes(f"{log.directory}/{MOVED_FROM}").decode(errors="replace")
    except FileNotFoundError:
        return None


def drop_move_note(disk: Disk, directory: str) -> None:
    """Remove the note of a move from a partition's directory, durably. A missing note or directory is ignored."""
    note = f"{directory}/{MOVED_FROM}"
    if disk.exists(note):
        with suppress(FileNotFoundError):
            disk.remove(note)
            disk.fsync_dir(directory)


def exchange(tables: LogTables, topic_partition: TopicPartition, deleted_name: str) -> tuple[Log, Log]:
    """Replace the current log by the future log; return the former current log, now called `deleted_name`, and the new one.

    Raises KafkaError KAFKA_STORAGE_ERROR when a directory fails; the current log then stays in its place, unless its own directory failed.
    """
    current, future = tables.current[topic_partition], tables.future[topic_partition]
    name = directory_name(topic_partition)
    current.rename_directory(deleted_name, durable=False)
    try:
        future.rename_directory(name, durable=False)
    except KafkaError:
        current.rename_directory(name, durable=False)
        raise
    # Records flushed to this log from now on must be found under its new name.
    future.durability.owe(future.directory, name_only=True)
    future.update_high_watermark(current.high_watermark)
    tables.take(topic_partition, future=True)
    tables.take(topic_partition)
    tables.put(future)
    current.close_handles()
    return current, future


def settle(disk: Disk, tables: LogTables, future: Log, assigned: Assigned) -> None:
    """Finish a move that a crash interrupted: `future` replaces the current log, or is truncated to their common end and copied further.

    `future` replaces the current log when that log is gone: either renamed by an interrupted exchange, or lost while the metadata already
    names the future log's directory (LogManager.recoverAbandonedFutureLogs). While the current log may be in an offline directory, nothing
    changes.
    """
    topic_partition = future.topic_partition
    current = tables.get(topic_partition)
    if current is not None:
        drop_move_note(disk, future.directory)
        end = common_end(current, future)
        if end < future.log_end_offset:
            future.truncate_to(end)
    elif _may_promote(disk, tables, future, assigned):
        logger.warning("%s replaces the log of %s, which no longer exists", future.directory, topic_partition)
        future.rename_directory(directory_name(topic_partition))
        drop_move_note(disk, future.directory)
        tables.take(topic_partition, future=True)
        tables.put(future)


def settle_all(disk: Disk, tables: LogTables, assigned: Assigned, failed: Callable[[Log, OSError], object]) -> None:
    """Finish all moves that a crash interrupted; `failed` is told of a failing disk."""
    for future in list(tables.future.values()):
        try:
            settle(disk, tables, future, assigned)
        except OSError as error:
            if out_of_descriptors(error):
                raise
            failed(future, error)
        except KafkaError:
            # The log has reported its directory as failed.
            continue
    if len(tables.directories) > 1:
        for log in list(tables.current.values()):
            try:
                drop_move_note(disk, log.directory)
            except OSError as error:
                failed(log, error)


def _may_promote(disk: Disk, tables: LogTables, future: Log, assigned: Assigned) -> bool:
    source = noted_source(disk, future)
    if source is not None:
        left = tables.by_path.get(source.rpartition("/")[0])
        return left is None or left.online
    wanted = assigned(future.topic_partition, future.topic_id)
    directory = tables.by_path[future.parent_directory]
    return wanted is not None and wanted == directory.directory_id and len(tables.online_directories) == len(tables.directories)
