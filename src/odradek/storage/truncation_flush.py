"""Truncations of many logs, made durable in one executor call.

A follower truncates its log where it differs from the leader's. When a broker dies, this may happen to hundreds of logs at once. A
truncation changes memory and files immediately, but the fsyncs that make it durable take long. Nothing may be written in place of the
truncated records before the fsyncs are done (`Log.truncate_to`):

1. The logs are truncated with `durable=False`; `Log.is_cut` is true from then on.
2. `plan_hardening` plans a flush of each log, and one write of each log directory's checkpoints for all of them.
3. `Hardening.run` executes the plan in any thread: file, snapshots, epochs and names of each log, then the checkpoints. Both must be on
   disk before the log is written to: with a stored recovery point from before the truncation, new records would count as flushed.
4. `Hardening.finish` marks the logs as durable. A log that could not wait, because it was elected leader or closed, has done
   steps 2 and 3 by itself in the meantime, on the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.base.disk import Disk
from odradek.base.errors import KafkaError
from odradek.storage.log_directory import CheckpointWrite, DirectoryWrite, write_checkpoints
from odradek.storage.truncation import hardened

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush
    from odradek.storage.log import Log
    from odradek.storage.log_tables import LogTables


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

    def finish(self) -> None:
        """Record the flushes on the loop. Logs whose flush failed have reported their directory as failed."""
        failed = {path for path, _ in self.failed_directories}
        for log, flush in self.cuts:
            error = self.failed.get(log)
            if error is not None:
                log.durability.give_back(flush)
                if not log.closed:
                    log.failed(error)
            elif log.parent_directory in failed:
                log.durability.give_back(flush)
            else:
                hardened(log, flush)


def plan_hardening(disk: Disk, tables: LogTables, logs: Iterable[Log]) -> Hardening | None:
    """Plan a hardening as `LogManager.begin_hardening`."""
    cuts: list[tuple[Log, Flush]] = []
    for log in logs:
        if not log.is_cut or log.closed:
            continue
        try:
            flush = log.begin_flush()
        except KafkaError:
            # The log has reported its directory as failed.
            continue
        if flush is not None:
            cuts.append((log, flush))
    checkpoints: list[CheckpointWrite] = []
    for path in sorted({log.parent_directory for log, _ in cuts}):
        checkpoints += tables.by_path[path].begin_checkpoints()
    return Hardening(disk, cuts, checkpoints) if cuts else None
