"""Loading of one directory's logs by several workers (the pools of Kafka's LogManager.loadLogs).

A worker takes one log after the other until all logs are taken or one failed. `num.recovery.threads.per.data.dir` workers run for each
directory, in threads where threads are used. `LogManager.adopt` puts the loaded logs into service, on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import OdradekError, StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, directory_name, parse_directory_name
from odradek.storage.options import LogOptions

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig

logger = logging.getLogger(__name__)

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)


class LoadProgress(NamedTuple):
    """Progress of a directory's loading: `done` of `total` logs, and the recovered segments of the log being loaded."""

    directory: str
    log: str
    done: int
    total: int
    segments_done: int
    segments_total: int
    bytes_per_second: float = 0.0
    """Rate of recovery in this directory so far."""


class DirectoryLoading:
    """Loading of one directory's logs: call `open`, then `work` in any number of threads in parallel, then `result`.

    An error ends the loading of this directory only, and a message in the broker's log names the partition log that failed. Directories
    share no state.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: LogDirectory,
        topic_config: Callable[[TopicPartition], TopicConfig],
        options: LogOptions,
        lock: AbstractContextManager[object],
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self.directory = directory
        self._topic_config = topic_config
        self._options = options
        self._lock = lock
        self._on_progress = on_progress
        self._names: list[str] = []
        self._next = 0
        self._done = 0
        self._recovered_bytes = 0
        self._began = 0.0
        self._logs: list[Log] = []
        self._failure: Exception | None = None
        self.fatal: StorageError | None = None
        """Error with which the broker may not start: the log directory holds a directory that is not a log."""
        self.doomed: list[str] = []
        """`-delete` directories that the last run did not remove."""
        self.strays: list[str] = []

    def open(self) -> None:
        """Read the checkpoints and list the logs; errors are kept for `result`."""
        self._began = self._clock.monotonic()
        directory = self.directory
        try:
            directory.open()
            self._names = [name for name in self._disk.listdir(directory.path) if self._is_log(name)]
        except OSError as error:
            self._failure = error
            return
        except StorageError as error:
            self.fatal = error
            return
        if self._names:
            how = "after a clean shutdown" if directory.clean else "recovering unflushed segments"
            logger.info("Loading %d logs of %s, %s", len(self._names), directory.path, how)

    def _is_log(self, name: str) -> bool:
        # Files are ignored; `parse_directory_name` then raises StorageError for a directory that is not named like a log.
        path = f"{self.directory.path}/{name}"
        if name == directory_name(METADATA_PARTITION) or name == "lost+found" or not self._disk.is_dir(path):
            return False
        if name.endswith(DELETE_DIR_SUFFIX):
            self.doomed.append(path)
            return False
        if name.endswith(STRAY_DIR_SUFFIX):
            self.strays.append(path)
            return False
        parse_directory_name(name)
        return True

    def work(self) -> None:
        """Load logs until all are taken. May run in any number of threads."""
        while True:
            with self._lock:
                if self._failure is not None or self.fatal is not None or self._next >= len(self._names):
                    return
                name = self._names[self._next]
                self._next += 1
            try:
                log = self._load(name)
            except (OSError, OdradekError) as error:
                with self._lock:
                    self._failed(name, error)
                return
            with self._lock:
                self._logs.append(log)
                self._done += 1

    def _failed(self, name: str, error: Exception) -> None:
        logger.error("Loading %s/%s failed: %s", self.directory.path, name, error)
        if self._failure is None:
            self._failure = error

    def _load(self, name: str) -> Log:
        directory = self.directory
        topic_partition = parse_directory_name(name)

        def on_segment(done: int, total: int, size: int) -> None:
            with self._lock:
                self._recovered_bytes += size
            self._report(name, done, total)

        self._report(name, 0, 0)
        return load_log(
            self._disk,
            self._clock,
            topic_partition,
            f"{directory.path}/{name}",
            self._topic_config(topic_partition),
            log_start_offset=directory.log_start_offsets.get(topic_partition, 0),
            recovery_point=directory.recovery_points.get(topic_partition, 0),
            clean=directory.clean,
            compacted=topic_partition in directory.compacted,
            options=self._options,
            on_segment=on_segment,
        )

    def _report(self, name: str, segments_done: int, segments_total: int) -> None:
        if self._on_progress is not None:
            elapsed = self._clock.monotonic() - self._began
            rate = self._recovered_bytes / elapsed if elapsed > 0 else 0.0
            progress = LoadProgress(self.directory.path, name, self._done, len(self._names), segments_done, segments_total, rate)
            self._on_progress(progress)

    def result(self) -> list[Log] | Exception:
        """Return the logs in the order of their names, or the error that takes the directory offline.

        Raises StorageError when the broker may not start with this directory.
        """
        if self.fatal is not None:
            raise self.fatal
        if self._failure is not None:
            for log in self._logs:
                log.close_handles()
            return self._failure
        if self._names:
            elapsed = self._clock.monotonic() - self._began
            recovered = f", {self._recovered_bytes / 1e6:.0f} MB recovered" if self._recovered_bytes else ""
            logger.info("Loaded %d logs of %s in %.2f s%s", len(self._logs), self.directory.path, elapsed, recovered)
        return sorted(self._logs, key=lambda log: log.directory)
