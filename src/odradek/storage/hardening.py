"""Making truncations durable, those of many logs at a time and off the loop.

A follower that finds its log to differ from its leader's cuts it, and when a broker dies that may happen to hundreds of logs at once. A
cut takes effect in memory and in the files at once; what takes long is to make it durable, and until then nothing may be written in its
place (`Log.truncate_to`):

1. The logs are cut with `durable=False`.
2. `LogManager.begin_hardening` plans a flush of each, and one writing of each log directory's checkpoints for all of them.
3. `Hardening.run` does that in any thread: file, snapshots, epochs and names of each log, then the checkpoints. Both must be on the disk
   before the log is written to: under a stored recovery point from before the cut, what is written in its place would count as flushed.
4. `LogManager.finish_hardening` takes over what is durable by then. A log that could not wait (it was chosen to lead, or it is closed)
   has done the same by itself meanwhile.
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
    """See the module's text. `failed` and `failed_directories` say after `run` what could not be made durable."""

    __slots__ = ("_checkpoints", "_disk", "cuts", "failed", "failed_directories")

    def __init__(self, disk: Disk, cuts: Sequence[tuple[Log, Flush]], checkpoints: Sequence[DirectoryWrite]) -> None:
        self._disk = disk
        self.cuts = cuts
        self._checkpoints = checkpoints
        self.failed: dict[Log, OSError] = {}
        self.failed_directories: list[tuple[str, OSError]] = []

    def run(self) -> None:
        """Blocks; may be called in any thread."""
        for log, flush in self.cuts:
            try:
                flush.run(self._disk)
            except OSError as error:
                self.failed[log] = error
        self.failed_directories = write_checkpoints(self._checkpoints)
