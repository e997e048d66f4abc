"""Log directory of a broker: its lock, checkpoints and logs, and whether it is online."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol
from uuid import UUID

from odradek.base.disk import DirectoryLock, Disk, out_of_descriptors
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import (
    read_clean_shutdown,
    read_offset_checkpoint,
    write_clean_shutdown,
    write_offset_checkpoint,
)
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
    """Error when another process, or another broker in this process, holds the lock of a log directory."""


class _Order:
    """Order of the writes of one file: the order in which they were begun, whatever threads they run in."""

    __slots__ = ("begun", "durable", "lock", "written")

    def __init__(self, lock: AbstractContextManager[object], durable: dict[TopicPartition, int]) -> None:
        self.lock = lock
        self.begun = 0
        self.written = 0
        self.durable = durable
        """Offsets in the file."""


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
        """Write the file durably, unless a write that was begun later has been written. Raises OSError from the disk."""
        order = self._order
        with order.lock:
            if self._number > order.written:
                write_offset_checkpoint(self._disk, f"{self.directory}/{self._name}", self._offsets)
                order.written = self._number
                order.durable = self._offsets


class DirectoryWrite(Protocol):
    """Interface of a write that is made durable. When `run` raises OSError, `directory` is the log directory whose disk failed."""

    @property
    def directory(self) -> str: ...

    def run(self) -> None: ...


def write_checkpoints(writes: Sequence[DirectoryWrite]) -> list[tuple[str, OSError]]:
    """Run all writes. Return the directories in which a write failed, with the error, for `LogManager.finish_checkpoints`."""
    failed: list[tuple[str, OSError]] = []
    for write in writes:
        try:
            write.run()
        except OSError as error:
            failed.append((write.directory, error))
    return failed


class LogDirectory:
    """Log directory, owned by the log manager.

    `logs` are the current logs by partition, `future_logs` the logs being moved into this directory.
    """

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
        """Number of logs that an executor call is creating here."""
        self.failure: Exception | None = None
        self.takes_logs = True
        """False for a metadata log directory that is not in log.dirs."""
        self.cordoned = False
        """True if new replicas are kept out of this directory (cordoned.log.dirs, KIP-1066)."""
        self.clean = False
        """True if the last shutdown was clean; known after `open`."""
        self.broker_epoch = -1
        """Broker epoch in the clean-shutdown file, -1 when unknown."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.compacted: frozenset[TopicPartition] = frozenset()
        """Partitions that the cleaner had cleaned before the directory was opened, whatever their policy was then."""
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
        """Lock the directory.

        Raises DirectoryInUse (a StorageError) when another broker holds the lock, OSError when the directory is unusable.
        """
        self._disk.makedirs(self.path)
        if not self._disk.is_dir(self.path):
            raise NotADirectoryError(20, "not a directory", self.path)
        try:
            self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError:
            raise DirectoryInUse(f"Failed to acquire lock on file .lock in {self.path}: another broker is using this directory") from None

    def open(self) -> None:
        """Read marker and checkpoints, and remove the marker: from here on a crash is an unclean shutdown."""
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
        """Read a checkpoint; a damaged one reads as empty. It costs time, not data: everything is then recovered from the start."""
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

    def begin_checkpoints(self) -> list[CheckpointWrite]:
        """Return the writes of recovery points and of log start offsets, as far as their files need them."""
        return [write for write in (self.begin_recovery_points(), self.begin_log_start_offsets()) if write is not None]

    def begin_recovery_points(self) -> CheckpointWrite | None:
        """Return the write of recovery-point-offset-checkpoint, None when the file holds these offsets already."""
        return self._begin(RECOVERY_POINT_CHECKPOINT, lambda log: log.checkpointed_recovery_point)

    def begin_log_start_offsets(self) -> CheckpointWrite | None:
        """Return the write of log-start-offset-checkpoint, None when the file holds these offsets already.

        Kafka leaves out a log start that is the base of the first segment. Here the log start is kept: until the removal of earlier
        segments is durable, a power cut could bring back records that DeleteRecords has deleted.
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
        """Return the write of an offset checkpoint, None when the file holds these offsets already."""
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
        """Remove a partition from the checkpoints on disk, on this thread, before a log with this name is created here.

        After a crash the new log would otherwise get the recovery point of an earlier log with the same name.
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


def lock_all(directories: Sequence[LogDirectory], failed: Callable[[str, OSError], object]) -> None:
    """Lock the directories; `failed` is told of a directory that fails, which goes offline.

    Raises StorageError when another process holds a lock or no directory is usable.
    """
    for directory in directories:
        try:
            directory.take_lock()
        except OSError as error:
            if out_of_descriptors(error):
                raise
            failed(directory.path, error)
    if not any(directory.online for directory in directories):
        raise StorageError("None of the log directories can be used: " + "; ".join(f"{d.path}: {d.failure}" for d in directories))
