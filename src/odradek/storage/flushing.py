"""Making written bytes durable, and turning a failing disk into a failed directory."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from odradek.base.disk import Disk, File
from odradek.storage.leader_epochs import EpochWrite
from odradek.storage.segment import Segment
from odradek.storage.slices import Pin

if TYPE_CHECKING:
    from odradek.storage.log_base import LogBase


class Flush:
    """A flush on its way: made by `Log.begin_flush`, `run` in any thread, handed to `Log.finish_flush` (or `release`d) on the loop.

    It holds its own pins and paths, so that a roll, a truncation or a deletion meanwhile does not disturb it.
    """

    __slots__ = ("_directories", "_files", "_paths", "_segments", "epochs", "generation", "index_point", "up_to")

    def __init__(self, up_to: int, generation: int, paths: list[str], index_point: int = 0) -> None:
        """`index_point` is the base offset of the segment whose indexes (unlike those before it) need not become durable."""
        self.up_to = up_to
        self.generation = generation
        self.index_point = index_point
        self._paths = paths
        self.epochs: EpochWrite | None = None
        """What leader-epoch-checkpoint is to hold, None when it needs no change."""
        self._files: list[tuple[File, Pin]] = []
        self._directories: set[str] = set()
        self._segments: list[Segment] = []

    def add(self, segment: Segment, *, indexes: bool) -> None:
        """Includes a segment's log file and, with `indexes`, its index files."""
        segment.pin.take()
        self._files.append((segment.file, segment.pin))
        if indexes:
            self._paths += segment.index_paths()
        if not segment.directory_entry_durable:
            self._directories.add(segment.directory)
            self._segments.append(segment)

    def add_paths(self, files: list[str], names: list[str]) -> None:
        """Includes these files, and the directory entries of these names."""
        self._paths += files
        self._directories.update(path.rpartition("/")[0] for path in names)

    def add_epochs(self, write: EpochWrite) -> None:
        """Includes leader-epoch-checkpoint, which must know the epochs of records before these count as flushed."""
        self.epochs = write

    def run(self, disk: Disk) -> None:
        """Fsyncs data, then indexes and snapshots, then the directory entries; OSError means that the directory failed for good."""
        for file, _ in self._files:
            file.fsync()
        for path in self._paths:
            try:
                file = disk.open(path)
            except FileNotFoundError:
                # Deleted with its segment since the flush began.
                continue
            try:
                file.fsync()
            finally:
                file.close()
        if self.epochs is not None:
            if disk.exists(self.epochs.directory):
                self.epochs.run(disk)
            else:
                # Renamed or deleted since: the log still owes it.
                self.epochs = None
        for directory in sorted(self._directories):
            try:
                disk.fsync_dir(directory)
            except FileNotFoundError:
                # Renamed or gone with its log; whoever did that sees to its names.
                continue

    def release(self, *, durable: bool = False) -> None:
        """Lets go of the segments; `durable` when `run` succeeded. Idempotent."""
        files, self._files = self._files, []
        for _, pin in files:
            pin.drop()
        if durable:
            for segment in self._segments:
                segment.directory_entry_durable = True


class Guarded:
    """`with Guarded(log):` lets an OSError inside mark the log's directory as failed and go on as KAFKA_STORAGE_ERROR."""

    __slots__ = ("_log",)

    def __init__(self, log: LogBase) -> None:
        self._log = log

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise self._log.failed(error) from error
