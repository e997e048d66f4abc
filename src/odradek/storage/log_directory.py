"""One log directory of a broker: its lock, its checkpoints, its logs, and whether it still works."""

from __future__ import annotations

import logging
from collections.abc import Callable
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
from odradek.storage.log import Log
from odradek.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)

logger = logging.getLogger(__name__)


class LogDirectory:
    """Owned by the log manager. `logs` are the current logs by partition, `future_logs` those being moved here."""

    __slots__ = (
        "_disk",
        "_lock",
        "_written",
        "broker_epoch",
        "clean",
        "directory_id",
        "failure",
        "future_logs",
        "log_start_offsets",
        "logs",
        "path",
        "recovery_points",
    )

    def __init__(self, disk: Disk, path: str, directory_id: UUID | None = None) -> None:
        self._disk = disk
        self.path = path
        self.directory_id = directory_id
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}
        self.failure: Exception | None = None
        self.clean = False
        """Whether the last shutdown was clean; known after `open`."""
        self.broker_epoch = -1
        """The broker epoch in the clean-shutdown file, -1 when unknown."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self._lock: DirectoryLock | None = None
        self._written: dict[str, dict[TopicPartition, int]] = {}

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
            raise StorageError(
                f"Failed to acquire lock on file .lock in {self.path}. A Kafka instance in another process or thread uses it."
            ) from None

    def open(self) -> None:
        """Reads marker and checkpoints, and removes the marker: from here on a crash is an unclean shutdown."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        epoch = read_clean_shutdown(self._disk, marker)
        self.clean = epoch is not None
        self.broker_epoch = -1 if epoch is None else epoch
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = self._read(LOG_START_OFFSET_CHECKPOINT)
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
        self._write(RECOVERY_POINT_CHECKPOINT, lambda log: log.checkpointed_recovery_point)

    def write_log_start_offsets(self) -> None:
        """Only log starts above their first segment are worth a line, as in Kafka."""
        self._write(LOG_START_OFFSET_CHECKPOINT, lambda log: log.log_start_offset if log.log_start_offset > log.bases[0] else None)

    def _write(self, name: str, value: Callable[[Log], int | None]) -> None:
        offsets: dict[TopicPartition, int] = {}
        for topic_partition, log in self.logs.items():
            offset = value(log)
            if offset is not None:
                offsets[topic_partition] = offset
        if self._written.get(name) != offsets:
            write_offset_checkpoint(self._disk, f"{self.path}/{name}", offsets)
            self._written[name] = offsets

    def write_clean_marker(self, broker_epoch: int) -> None:
        write_clean_shutdown(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}", broker_epoch)

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
