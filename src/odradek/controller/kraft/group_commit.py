"""The fsyncs of the metadata log: one at a time, and what is appended meanwhile shares the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.disk import Disk
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.metadata_log import MetadataLog

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush


class GroupCommit:
    """Flushes in the background. `on_durable` is told up to which offset the log is durable, each time that has grown or was asked for."""

    __slots__ = ("_background", "_closed", "_disk", "_flushing", "_log", "_on_durable", "_on_error")

    def __init__(
        self,
        log: MetadataLog,
        disk: Disk,
        background: Background,
        on_durable: Callable[[int], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """`on_error` is told when an fsync failed: after that nobody knows what is on the disk, and nothing is flushed again."""
        self._log = log
        self._disk = disk
        self._background = background
        self._on_durable = on_durable
        self._on_error = on_error
        self._flushing = False
        self._closed = False

    def flush(self) -> None:
        """Makes durable what has been appended; when a flush is under way, with the next one."""
        if self._flushing or self._closed:
            return
        flush = self._log.begin_flush()
        if flush is None:
            return
        self._flushing = True
        self._background.run(lambda: flush.run(self._disk), lambda error: self._flushed(flush, error))

    def close(self) -> None:
        """Flushes what is left, on this thread, unless a flush is under way; none begins after that."""
        self._closed = True
        if not self._flushing:
            self._log.log.flush()

    def abandon(self) -> None:
        """No flush begins any more: the disk cannot be trusted."""
        self._closed = True

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._flushing = False
        if error is not None:
            flush.release()
            self._on_error(error)
            return
        log = self._log.log
        log.finish_flush(flush)
        # Not flush.up_to: the log may have been cut meanwhile and have grown again, by records that this flush has not seen.
        self._on_durable(log.recovery_point)
        if log.recovery_point < log.log_end_offset:
            self.flush()
