"""Adoption of loaded logs: strays, and the choice between two logs of one partition in two log directories."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.log import Log
from odradek.storage.log_tables import LogTables
from odradek.storage.moves import Assigned, noted_source

logger = logging.getLogger(__name__)

IsStray = Callable[[TopicPartition, UUID | None], bool]
"""Function that returns whether the metadata does not know a log of this partition and topic id."""
_ASSIGNED = "the metadata names its directory"


def claim(disk: Disk, tables: LogTables, log: Log, is_stray: IsStray, assigned: Assigned) -> tuple[Log | None, bool]:
    """Put a loaded log into the tables unless it is stray or another log of its partition counts.

    Returns the log that is not used, None without one, and whether it is to be set aside; else it is to be deleted.
    """
    if not tables.by_path[log.parent_directory].online:
        return None, False
    if is_stray(log.topic_partition, log.topic_id):
        return log, True
    other = tables.get(log.topic_partition, future=log.is_future)
    if other is None:
        tables.put(log)
        return None, False
    counts, reason = _one_of_two(disk, tables, other, log, assigned)
    loser = other if counts is log else log
    if loser is other:
        tables.take(log.topic_partition, future=log.is_future)
        tables.put(log)
    logger.warning("%s is used and %s is not: %s", counts.directory, loser.directory, reason)
    return loser, reason is _ASSIGNED


def _one_of_two(disk: Disk, tables: LogTables, one: Log, other: Log, assigned: Assigned) -> tuple[Log, str]:
    """Return which of two logs of a partition counts, and why. Raises StorageError when no rule applies.

    1. The log that has replaced the other one (`moves.note_move`).
    2. The log that holds records: an empty one was begun and abandoned when its directory failed.
    3. The log in the directory that the metadata names. The other one may hold records, and is set aside.
    4. Of two future logs, or of two empty logs, any.
    """
    pairs = ((one, other), (other, one))
    for log, replaced in pairs:
        if _noted_source(disk, log) == replaced.directory:
            return log, "it replaced the other log"
    for log, empty in pairs:
        if log.log_end_offset > 0 and empty.log_end_offset == 0:
            return log, "the other log is empty"
    directory_id = assigned(one.topic_partition, one.topic_id)
    for log, _ in pairs:
        if directory_id is not None and tables.by_path[log.parent_directory].directory_id == directory_id:
            return log, _ASSIGNED
    if one.is_future or one.log_end_offset == 0:
        return one, "both are equal"
    raise StorageError(f"Duplicate log directories for {one.topic_partition}: {one.directory} and {other.directory}. Remove one of them.")


def _noted_source(disk: Disk, log: Log) -> str | None:
    try:
        return noted_source(disk, log)
    except OSError as error:
        if out_of_descriptors(error):
            raise
        # `failed` takes the directory offline and returns a KafkaError.
        raise log.failed(error) from error
