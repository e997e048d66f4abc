"""Renamed files and directories that are removed after file.delete.delay.ms."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.base.clock import Clock
from odradek.base.disk import Disk, out_of_descriptors

logger = logging.getLogger(__name__)


class Deletion:
    """Files and directories whose delay is over.

    `run` may take long and belongs in an executor. It logs its errors and returns them.
    """

    __slots__ = ("_directories", "_disk", "_files", "left_directories", "left_files")

    def __init__(self, disk: Disk, files: list[str], directories: list[str]) -> None:
        self._disk = disk
        self.left_files: list[str] = []
        """Files that still exist because no descriptor was free; `left_directories` likewise."""
        self.left_directories: list[str] = []
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
                if out_of_descriptors(error):
                    self.left_files.append(path)
        for path in self._directories:
            try:
                self._disk.rmtree(path)
            except OSError as error:
                errors.append(error)
                if out_of_descriptors(error):
                    self.left_directories.append(path)
        for failure in errors:
            logger.error("Deleting failed: %s", failure)
        return errors


class Doomed:
    """Files and directories to remove, with the time from which each may be removed."""

    __slots__ = ("_clock", "_directories", "_disk", "_files")

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._files: list[tuple[int, str]] = []
        """(due time in ms, path)"""
        self._directories: list[tuple[int, str]] = []

    def add_files(self, paths: Iterable[str], delay_ms: int) -> None:
        due_ms = self._clock.time_ms() + delay_ms
        self._files += [(due_ms, path) for path in paths]

    def add_directories(self, paths: Iterable[str], delay_ms: int) -> None:
        due_ms = self._clock.time_ms() + delay_ms
        self._directories += [(due_ms, path) for path in paths]

    def add_left(self, deletion: Deletion) -> None:
        """Add the paths again that a deletion could not remove because no descriptor was free."""
        self.add_files(deletion.left_files, 0)
        self.add_directories(deletion.left_directories, 0)

    def take_due(self, *, everything: bool) -> Deletion | None:
        """Take the files and directories that are due (all with `everything`); None when there are none."""
        now_ms = self._clock.time_ms()
        files = [path for due_ms, path in self._files if everything or due_ms <= now_ms]
        directories = [path for due_ms, path in self._directories if everything or due_ms <= now_ms]
        if not files and not directories:
            return None
        self._files = [entry for entry in self._files if not everything and entry[0] > now_ms]
        self._directories = [entry for entry in self._directories if not everything and entry[0] > now_ms]
        return Deletion(self._disk, files, directories)
