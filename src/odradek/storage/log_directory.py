"""One log directory of a broker: its lock, its checkpoints, its logs, and whether it still works."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol
from uuid import UUID

from odradek.base.disk import DirectoryLock, Disk
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import (
    read_clean_shutdown,
    read_offset_checkpoint,
    write_clean_shutdown,
    write_offset_checkpoint,
)
from odradek.storage.flushing import Flush
from odradek.storage.log import Log
from odradek.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)

logger = logging.getLogger(__name__)


class DirectoryInUse(StorageError):
    """Another process, or another broker in this one, holds the lock of a log directory."""


class _Order:
    """Keeps the writes of one file in the order in which they were begun, whatever threads they run in."""

    __slots__ = ("begun", "durable", "lock", "written")

    def __init__(self, lock: AbstractContextManager[object], durable: dict[TopicPartition, int]) -> None:
        self.lock = lock
        self.begun = 0
        self.written = 0
        self.durable = durable
        """The offsets that the file holds."""


class CheckpointWrite:
    """New contents of an offset checkpoint, collected on the loop; `run` may be called in any thread."""

    __slots__ = ("_disk", "_name", "_number", "_offsets", "_order", "directory")

    def __init__(self, disk: Disk, directory: str, name: str, offsets: dict[TopicPartition, int], order: _Order) -> None:
        self._disk = disk
        self.directory = directory
        self._name = name
        self._offsets = offsets
        self._order = order
        self._number = order.begun

    def run(self) -> None:
        """Writes the file durably, unless one collected later has been written; OSError from the disk."""
        order = self._order
        with order.lock:
            if self._number > order.written:
                write_offset_checkpoint(self._disk, f"{self.directory}/{self._name}", self._offsets)
                order.written = self._number
                order.durable = self._offsets


class NewNames:
    """Fsyncs of the small files and the names of new logs in one directory; `run` may be called in any thread."""

    __slots__ = ("_disk", "_flush", "directory")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.directory = directory
        self._flush = Flush(0, 0, [])

    def add(self, files: list[str], names: list[str]) -> None:
        self._flush.add_paths(files, names)

    def run(self) -> None:
        """Does the fsyncs; files that were deleted in the meantime are left out. OSError from the disk."""
        self._flush.run(self._disk)


class DirectoryWrite(Protocol):
    """Something to make durable. When `run` raises OSError, `directory` is the log directory whose disk failed."""

    @property
    def directory(self) -> str: ...

    def run(self) -> None: ...


def write_checkpoints(writes: Sequence[DirectoryWrite]) -> list[tuple[str, OSError]]:
    """Runs all of them; returns the directories in which one failed, with the error, for `LogManager.finish_checkpoints`."""
    failed: list[tuple[str, OSError]] = []
    for write in writes:
        try:
            write.run()
        except OSError as error:
            failed.append((write.directory, error))
    return failed


class LogDirectory:
    """Owned by the log manager. `logs` are the current logs by partition, `future_logs` those being moved here."""

    __slots__ = (
        "_disk",
        "_lock",
        "_new_lock",
        "_orders",
        "_written",
        "broker_epoch",
        "clean",
        "compacted",
        "cordoned",
        "directory_id",
        "failure",
        "future_logs",
        "log_start_offsets",
        "logs",
        "logs_to_come",
        "path",
        "recovery_points",
        "takes_logs",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        directory_id: UUID | None = None,
        new_lock: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`new_lock` makes a lock (threading.Lock) where checkpoints are written in several threads."""
        self._disk = disk
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}
        self.logs_to_come = 0
        """How many logs a job is making here."""
        self.failure: Exception | None = None
        self.takes_logs = True
        """False for a metadata log directory that is not among log.dirs."""
        self.cordoned = False
        """No new replica is placed here (cordoned.log.dirs, KIP-1066)."""
        self.clean = False
        """Whether the last shutdown was clean; known after `open`."""
        self.broker_epoch = -1
        """The broker epoch in the clean-shutdown file, -1 when unknown."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.compacted: frozenset[TopicPartition] = frozenset()
        """The partitions that the cleaner had cleaned before the directory was opened, whatever their policy was then."""
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self._lock: DirectoryLock | None = None
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._orders: dict[str, _Order] = {}
        self._new_lock = new_lock

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, {len(self.logs)} logs{', offline' if self.failure else ''})"

    @property
    def online(self) -> bool:
        return self.failure is None

    def take_lock(self) -> None:
        """StorageError when another process holds it, OSError when the directory cannot be used."""
        self._disk.makedirs(self.path)
        if not self._disk.is_dir(self.path):
            raise NotADirectoryError(20, "not a directory", self.path)
        try:
            self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError:
            raise DirectoryInUse(f"Failed to acquire lock on file .lock in {self.path}: another broker is using this directory") from None

    def open(self) -> None:
        """Reads marker and checkpoints, and removes the marker: from here on a crash is an unclean shutdown."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        epoch = read_clean_shutdown(self._disk, marker)
        self.clean = epoch is not None
        self.broker_epoch = -1 if epoch is None else epoch
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = self._read(LOG_START_OFFSET_CHECKPOINT)
        self.compacted = frozenset(self._read(CLEANER_OFFSET_CHECKPOINT))
        self._order(RECOVERY_POINT_CHECKPOINT).durable = self.recovery_points
        self._order(LOG_START_OFFSET_CHECKPOINT).durable = self.log_start_offsets
        if self.clean:
            self._disk.remove(marker)
            self._disk.fsync_dir(self.path)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint costs time, not data: everything is then recovered from the start."""
        try:
            return read_offset_checkpoint(self._disk, f"{self.path}/{name}")
        except StorageError as error:
            logger.warning("Ignoring a damaged checkpoint: %s", error)
            return {}

    def write_recovery_points(self) -> None:
        if (write := self.begin_recovery_points()) is not None:
            write.run()

    def write_log_start_offsets(self) -> None:
        if (write := self.begin_log_start_offsets()) is not None:
            write.run()

    def begin_recovery_points(self) -> CheckpointWrite | None:
        """The write of recovery-point-offset-checkpoint, None when the file holds these offsets already."""
        return self._begin(RECOVERY_POINT_CHECKPOINT, lambda log: log.checkpointed_recovery_point)

    def begin_log_start_offsets(self) -> CheckpointWrite | None:
        """As `begin_recovery_points`, for log-start-offset-checkpoint.

        Kafka leaves out a log start that is the base of the first segment. It is kept here: as long as the removal of earlier segments is
        not durable, a power cut could bring back what DeleteRecords has deleted.
        """
        return self._begin(LOG_START_OFFSET_CHECKPOINT, lambda log: log.log_start_offset if log.log_start_offset > 0 else None)

    def _begin(self, name: str, value: Callable[[Log], int | None]) -> CheckpointWrite | None:
        offsets: dict[TopicPartition, int] = {}
        for logs in (self.logs, self.future_logs):
            for topic_partition, log in logs.items():
                offset = value(log)
                if offset is not None:
                    offsets[topic_partition] = offset
        return self.begin_offsets(name, offsets)

    def begin_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> CheckpointWrite | None:
        """The write of an offset checkpoint, None when the file holds these offsets already."""
        order = self._order(name)
        if self._written.get(name) == offsets == order.durable:
            return None
        self._written[name] = offsets
        order.begun += 1
        return CheckpointWrite(self._disk, self.path, name, offsets, order)

    def _order(self, name: str) -> _Order:
        order = self._orders.get(name)
        if order is None:
            order = self._orders[name] = _Order(self._new_lock(), {})
        return order

    def forget(self, topic_partition: TopicPartition) -> None:
        """Removes a partition from the checkpoints on disk before a log is made here under that name, on this thread.

        After a crash the new log would otherwise get the recovery point of an earlier log of that name.
        """
        if any(topic_partition in order.durable for order in self._orders.values()):
            self._written.clear()
            self.write_recovery_points()
            self.write_log_start_offsets()

    def write_clean_marker(self, broker_epoch: int) -> None:
        write_clean_shutdown(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}", broker_epoch)

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
