"""`replication-offset-checkpoint`: the high watermarks, one file in each log directory, in the JVM's format."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint

if TYPE_CHECKING:
    from odradek.storage.log import Log

logger = logging.getLogger(__name__)

FILE_NAME = "replication-offset-checkpoint"


class HighWatermarkCheckpoints:
    """Checkpoint files of the high watermarks. Each file is read once, when the first partition needs it."""

    __slots__ = ("_disk", "_last", "_lock", "_read", "_written")

    def __init__(self, disk: Disk, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock` (threading.Lock) is needed where `write` runs in several threads."""
        self._disk = disk
        self._lock = lock or nullcontext()
        self._read: dict[str, dict[TopicPartition, int]] = {}
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._last = False

    def restore(self, log: Log) -> None:
        """Set the high watermark of a log that was just opened from the last checkpoint, within the log's bounds.

        An entry of the file is used once, for the log that it was written about. A damaged file counts as a missing one. The leader's high
        watermark rises again as soon as its in-sync replicas fetch. (Kafka's ReplicaManager takes the directory offline.) Raises OSError
        when the file cannot be read.
        """
        directory = _parent(log.directory)
        saved = self._read.get(directory)
        if saved is None:
            saved = self._read[directory] = self._load(directory)
        offset = saved.pop(log.topic_partition, 0)
        if offset > log.high_watermark:
            log.update_high_watermark(offset)

    def _load(self, directory: str) -> dict[TopicPartition, int]:
        try:
            return dict(read_offset_checkpoint(self._disk, f"{directory}/{FILE_NAME}"))
        except StorageError as error:
            logger.warning("Ignoring a damaged checkpoint: %s", error)
            return {}

    def collect(self, logs: Iterable[Log]) -> dict[str, dict[TopicPartition, int]]:
        """Return the high watermarks to write now, by log directory, for directories in which a high watermark has changed."""
        by_directory: dict[str, dict[TopicPartition, int]] = {}
        for log in logs:
            by_directory.setdefault(_parent(log.directory), {})[log.topic_partition] = log.high_watermark
        return {directory: offsets for directory, offsets in by_directory.items() if self._written.get(directory) != offsets}

    def write(self, collected: Mapping[str, dict[TopicPartition, int]], *, last: bool = False) -> list[tuple[str, OSError]]:
        """Write the files, and return the directories that failed. Any thread may call this; calls wait for each other.

        Each call writes through the same temporary file of a directory.

        After the `last` call, other calls write nothing: a job that was submitted before holds older high watermarks.
        """
        failed: list[tuple[str, OSError]] = []
        with self._lock:
            if self._last and not last:
                return []
            self._last = last
            for directory, offsets in collected.items():
                try:
                    write_offset_checkpoint(self._disk, f"{directory}/{FILE_NAME}", offsets)
                except OSError as error:
                    failed.append((directory, error))
                else:
                    self._written[directory] = offsets
        return failed


def _parent(directory: str) -> str:
    return directory.rpartition("/")[0]
