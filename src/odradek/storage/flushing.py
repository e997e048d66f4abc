"""Flushes of logs, and the conversion of disk errors into failed log directories."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from odradek.base.disk import Disk, File
from odradek.storage.leader_epochs import EpochWrite, LeaderEpochCache
from odradek.storage.names import PARTITION_METADATA
from odradek.storage.segment import Segment
from odradek.storage.slices import Pin

if TYPE_CHECKING:
    from odradek.storage.log import Log
    from odradek.storage.log_segments import LogSegments


class Flush:
    """Flush in progress: `Log.begin_flush` makes it, any thread may call `run`, and the loop calls `Log.finish_flush` or `release`.

    The flush holds its own pins and paths, so a roll, a truncation or a deletion in the meantime does not disturb it.
    """

    __slots__ = ("_directories", "_files", "_paths", "_segments", "epochs", "generation", "index_point", "owed", "owed_in", "up_to")

    def __init__(self, up_to: int, generation: int, paths: list[str], index_point: int = 0) -> None:
        """`index_point` is the base offset of the first segment whose indexes need not become durable; the indexes of earlier segments
        must.
        """
        self.up_to = up_to
        self.generation = generation
        self.index_point = index_point
        self._paths = paths
        self.owed: tuple[list[str], list[str], list[str]] = ([], [], [])
        """Snapshots, files and names that the log must flush again when this flush has not run (`Durability.give_back`)."""
        self.owed_in = ""
        """Directory of the log when the flush was planned."""
        self.epochs: EpochWrite | None = None
        """New contents of leader-epoch-checkpoint, None when the file needs no change."""
        self._files: list[tuple[File, Pin]] = []
        self._directories: set[str] = set()
        self._segments: list[Segment] = []

    def add(self, segment: Segment, *, indexes: bool) -> None:
        """Include a segment's log file and, with `indexes`, its index files."""
        file = segment.file
        segment.pin.take()
        self._files.append((file, segment.pin))
        if indexes:
            self._paths += segment.index_paths()
        if not segment.directory_entry_durable:
            self._directories.add(segment.directory)
            self._segments.append(segment)

    def add_paths(self, files: list[str], names: list[str]) -> None:
        """Include the files in `files` and the directory entries of `names`."""
        self._paths += files
        self._directories.update(path.rpartition("/")[0] for path in names)

    def add_epochs(self, write: EpochWrite) -> None:
        """Include leader-epoch-checkpoint: records count as flushed only when the file holds their epochs."""
        self.epochs = write

    def run(self, disk: Disk) -> None:
        """Fsync data, then indexes and snapshots, then the epochs and the directory entries. OSError means that the directory failed for
        good.
        """
        for file, _ in self._files:
            file.fsync()
        for path in self._paths:
            try:
                file = disk.open(path)
            except FileNotFoundError:
                # The file was deleted with its segment since the flush began.
                continue
            try:
                file.fsync()
            finally:
                file.close()
        if self.epochs is not None:
            if disk.exists(self.epochs.directory):
                self.epochs.run(disk)
            else:
                # The directory was renamed or deleted: the log must still write the epochs.
                self.epochs = None
        for directory in sorted(self._directories):
            try:
                disk.fsync_dir(directory)
            except FileNotFoundError:
                # The directory was renamed or deleted with its log; the code that did so makes the names durable.
                continue

    def release(self, *, durable: bool = False) -> None:
        """Unpin the segments. `durable` says that `run` succeeded. Idempotent."""
        files, self._files = self._files, []
        for _, pin in files:
            pin.drop()
        if durable:
            for segment in self._segments:
                segment.directory_entry_durable = True


class Durability:
    """Durability of a log, and the files that its next flush must include besides the batches.

    `recovery_point` is the offset below which all records are durable, names and epochs included. A flush moves it only when the log was
    not truncated, renamed or closed since the flush was planned.
    """

    __slots__ = (
        "_epochs",
        "_files",
        "_generation",
        "_index_point",
        "_names",
        "_segments",
        "_snapshots",
        "_untouched_end",
        "is_cut",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self, segments: LogSegments, epochs: LeaderEpochCache, recovery_point: int, log_end_offset: int, now_ms: int, *, clean: bool
    ) -> None:
        """`clean` says that the next shutdown has nothing to flush unless the log changes."""
        self._segments = segments
        self._epochs = epochs
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.is_cut = False
        """True if the log was truncated and the truncation is not durable yet."""
        self._generation = 0
        self._files: list[str] = []
        self._names: list[str] = []
        self._snapshots: list[str] = []
        self._index_point = segments.active.base_offset if recovery_point == log_end_offset else recovery_point
        """Offset; segments that end at or below it have durable indexes."""
        self._untouched_end = log_end_offset if clean else -1
        """Log end at loading after a clean shutdown: a log that still ends there needs no flush at the next shutdown.

        -1 after a recovery, a roll or a removal. These leave files and names that are not durable without moving the end.
        """

    @property
    def generation(self) -> int:
        """Number that rises when the log is truncated, renamed or closed.

        Flushes and cleanings planned under an earlier generation are void. Appends, rolls and retention do not change it.
        """
        return self._generation

    def void_plans(self) -> None:
        self._generation += 1

    def touch(self) -> None:
        """Record that files or names have changed, so that the next shutdown flushes the log."""
        self._untouched_end = -1

    def is_untouched(self, log_end_offset: int) -> bool:
        """Return whether the log is as the last clean shutdown left it."""
        return log_end_offset == self._untouched_end

    # -- pending fsyncs ----------------------------------------------------------------------------------------------------------

    def owe(self, path: str, *, name_only: bool = False) -> None:
        """Add a file, or with `name_only` only its directory entry, to the next flush."""
        self._names.append(path)
        if not name_only:
            self._files.append(path)

    def owe_snapshot(self, path: str) -> None:
        """Add a producer snapshot that was written at a roll to the next flush."""
        self._snapshots.append(path)

    @property
    def owed(self) -> tuple[list[str], list[str]]:
        """Files, and names, that are not durable yet; without snapshots."""
        return list(self._files), list(self._names)

    def owes_names(self) -> bool:
        return bool(self._names)

    def renamed(self, old: str, new: str) -> None:
        """Replace the path of the log's directory in the pending files and names."""
        self._files = [new + path.removeprefix(old) for path in self._files]
        self._names = [new + path.removeprefix(old) for path in self._names]

    # -- flushing ----------------------------------------------------------------------------------------------------------------

    def covers(self, offset: int) -> bool:
        """Return whether all records below `offset` are durable, and also truncations, and indexes and snapshots of inactive segments."""
        if self.is_cut or offset > self.recovery_point or self._snapshots:
            return False
        return self._index_point >= self._segments.active.base_offset

    def plan(self, up_to: int, log_end_offset: int, *, closing: bool) -> Flush:
        """Return a flush of all records below `up_to`, of their epochs, and of all pending files and names.

        With `closing` the flush includes the indexes of the active segment. Otherwise recovery rebuilds them, as it does for any segment
        that holds the recovery point.
        """
        segments, epochs = self._segments, self._epochs
        # Truncated epochs leave the file, too: in a compacted log recovery would keep them.
        behind = epochs.dirty if self.is_cut else epochs.is_behind(log_end_offset)
        write = epochs.begin_write() if behind else None
        snapshots, self._snapshots = self._snapshots, []
        flush = Flush(up_to, self._generation, list(snapshots), segments.active.base_offset)
        files, self._files = self._files, []
        names, self._names = self._names, []
        flush.owed, flush.owed_in = (snapshots, files, names), segments.directory
        flush.add_paths(files, names)
        if write is not None:
            flush.add_epochs(write)
        try:
            for segment in segments[segments.index_at(min(self.recovery_point, self._index_point)) :]:
                flush.add(segment, indexes=closing or segment is not segments.active)
        except OSError:
            self.give_back(flush)
            raise
        if closing:
            # A transaction index or a snapshot may have been made since the directory was last made durable.
            flush.add_paths([], [f"{segments.directory}/{PARTITION_METADATA}"])
        return flush

    def give_back(self, flush: Flush) -> None:
        """Release a flush that failed or did not run, and add its files and names to the next flush, if the directory stays online."""
        flush.release()
        directory = self._segments.directory
        snapshots, files, names = ([directory + path.removeprefix(flush.owed_in) for path in paths] for paths in flush.owed)
        self._snapshots[:0] = snapshots
        self._files[:0] = files
        self._names[:0] = names

    def finish(self, flush: Flush, now_ms: int) -> None:
        """Record a flush that ran without error: the recovery point moves, unless the log was truncated since the flush began."""
        holds = flush.generation == self._generation
        flush.release(durable=holds)
        if holds:
            self.recovery_point = max(self.recovery_point, flush.up_to)
            self._index_point = max(self._index_point, flush.index_point)
            self.last_flush_ms = now_ms
        else:
            # If the directory was renamed, the flush may have missed files under the old name: they must be made durable again.
            self.owe(f"{self._segments.directory}/{PARTITION_METADATA}")
        if flush.epochs is not None:
            self._epochs.finish_write(flush.epochs)

    def truncated(self, log_end_offset: int) -> None:
        """Lower the recovery point to the new log end after a truncation."""
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self._index_point = min(self._index_point, self._segments.active.base_offset)

    def started_over(self, offset: int) -> None:
        """Note that the log now consists of one empty segment at `offset`."""
        self.recovery_point = min(self.recovery_point, offset)
        self._index_point = offset

    def checkpointed_recovery_point(self, log_end_offset: int) -> int:
        """Return the offset that recovery-point-offset-checkpoint may hold.

        It is at most the last offset of the first segment whose indexes are not durable, because recovery skips segments wholly below it.
        The flush after the roll makes those indexes durable.
        """
        segments = self._segments
        index = segments.index_at(self._index_point)
        return min(self.recovery_point, max(segments.end_of(index, log_end_offset) - 1, segments.bases[index]))


class Guarded:
    """Context manager that turns an OSError into KAFKA_STORAGE_ERROR and marks the log's directory as failed.

    When no descriptor was free, the directory stays online, and the operation may be tried again. With `changing` the directory fails in
    this case, too: a change that fails halfway leaves the log's memory in no usable state.
    """

    __slots__ = ("_changing", "_log")

    def __init__(self, log: Log, *, changing: bool = False) -> None:
        self._log = log
        self._changing = changing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise self._log.failed(error, changing=self._changing) from error
