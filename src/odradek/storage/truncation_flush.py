"""Truncations of many logs, made durable in one executor call.

A follower truncates its log where it differs from the leader's. When a broker dies, this may happen to hundreds of logs at once. A
truncation changes memory and files immediately, but the fsyncs that make it durable take long. Nothing may be written in place of the
truncated records before the fsyncs are done (`Log.truncate_to`):

1. The logs are truncated with `durable=False`; `Log.is_cut` is true from then on.
2. `LogManager.begin_hardening` plans a flush of each log, and one write of each log directory's checkpoints for all of them.
3. `Hardening.run` executes the plan in any thread: file, snapshots, epochs and names of each log, then the checkpoints. Both must be on
   disk before the log is written to: with a stored recovery point from before the truncation, new records would count as flushed.
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
    """Plan of one executor call; see the module's text. After `run`, `failed` and `failed_directories` hold the errors."""

    __slots__ = ("_checkpoints", "_disk", "cuts", "failed", "failed_directories")

    def __init__(self, disk: Disk, cuts: Sequence[tuple[Log, Flush]], checkpoints: Sequence[DirectoryWrite]) -> None:
        self._disk = disk
        self.cuts = cuts
        self._checkpoints = checkpoints
        self.failed: dict[Log, OSError] = {}
        self.failed_directories: list[tuple[str, OSError]] = []

    def run(self) -> None:
        """Do all fsyncs and writes. Blocks, and may be called in any thread."""
        for log, flush in self.cuts:
            try:
                flush.run(self._disk)
            except OSError as error:
                self.failed[log] = error
        self.failed_directories = write_checkpoints(self._checkpoints)
