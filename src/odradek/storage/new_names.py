"""Names of logs that are not durable yet, after logs were created, deleted or moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.storage.flushing import Flush
from odradek.storage.names import LOCK_FILE

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.storage.log import Log
    from odradek.storage.log_directory import DirectoryWrite
    from odradek.storage.log_tables import LogTables
    from odradek.storage.moves import FinishedMove


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
        """Do the fsyncs; files that were deleted in the meantime are left out. Raises OSError from the disk."""
        self._flush.run(self._disk)


class PendingNames:
    """Creations, deletions and moves whose names and checkpoints are not durable yet; for the loop."""

    __slots__ = ("_created", "_disk", "_late", "_left", "_moved", "_tables")

    def __init__(self, disk: Disk, tables: LogTables) -> None:
        self._disk = disk
        self._tables = tables
        self._created: list[Log] = []
        self._left: set[str] = set()
        self._moved: list[FinishedMove] = []
        self._late: list[DirectoryWrite] = []
        """Writes that found no free descriptor."""

    def __bool__(self) -> bool:
        """Return whether `begin` has writes to return."""
        return bool(self._created or self._left or self._moved or self._late)

    def created(self, log: Log) -> None:
        self._created.append(log)

    def left(self, *paths: str) -> None:
        """Add log directories that logs were removed from."""
        self._left.update(paths)

    def moved(self, move: FinishedMove) -> None:
        self._moved.append(move)

    def put_back(self, writes: Iterable[DirectoryWrite]) -> None:
        """Keep writes of `begin` that found no free descriptor, for its next call. Each may run again as a whole."""
        self._late += writes

    def begin(self) -> list[DirectoryWrite]:
        """Return writes that make the creations, deletions and moves of logs since the last call durable; for `write_checkpoints`."""
        found: dict[str, NewNames] = {}
        for log in self._created:
            if self._tables.holds(log):
                found.setdefault(log.parent_directory, NewNames(self._disk, log.parent_directory)).add(*log.durability.owed)
        self._created.clear()
        writes: list[DirectoryWrite] = list(found.values())
        moved, self._moved = self._moved, []
        left, self._left = sorted(self._left), set()
        for path in left:
            directory = self._tables.by_path[path]
            if directory.online:
                names = NewNames(self._disk, path)
                names.add([], [f"{path}/{LOCK_FILE}"])
                writes.append(names)
                writes += directory.begin_checkpoints()
        late, self._late = self._late, []
        return [*[write for write in late if self._tables.by_path[write.directory].online], *moved, *writes]
