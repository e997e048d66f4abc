"""Makes truncations durable: those of many logs in one job, off the event loop.

A follower truncates its log where it differs from the leader's. When a broker dies that may happen to hundreds of logs at once. A
truncation changes memory and files immediately; the fsyncs that make it durable take long, and nothing may be written in place of the
truncated records before they are done (`Log.truncate_to`):

1. The logs are truncated with `durable=False`; such a log is called cut.
2. `LogManager.begin_hardening` plans a flush of each, and one writing of each log directory's checkpoints for all of them.
3. `Hardening.run` does that in any thread: file, snapshots, epochs and names of each log, then the checkpoints. Both must be on the disk
   before the log is written to: under a stored recovery point from before the cut, what is written in its place would count as flushed.
4. `LogManager.finish_hardening` marks the logs as durable. A log that could not wait, because it was elected leader or closed, has done
   steps 2 and 3 by itself in the meantime, on the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.base.disk import Disk
from odradek.storage.log_directory import DirectoryWrite, write_checkpoints

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush
    from odradek.storage.log import Log


class Hardening:
    """One job; see the module's text. After `run`, `failed` and `failed_directories` hold the errors."""

    __slots__ = ("_checkpoints", "_disk", "cuts", "failed", "failed_directories")

    def __init__(self, disk: Disk, cuts: Sequence[tuple[Log, Flush]], checkpoints: Sequence[DirectoryWrite]) -> None:
        self._disk = disk
        self.cuts = cuts
        self._checkpoints = checkpoints
        self.failed: dict[Log, OSError] = {}
        self.failed_directories: list[tuple[str, OSError]] = []

    def run(self) -> None:
        """Does all fsyncs and writes; blocks, and may be called in any thread."""
        for log, flush in self.cuts:
            try:
                flush.run(self._disk)
            except OSError as error:
                self.failed[log] = error
        self.failed_directories = write_checkpoints(self._checkpoints)
