"""Fsyncs of the metadata log: one at a time. Records appended during an fsync share the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.timing import Alarm
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.queue import WorkQueue

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush

FLUSH_INTERVAL_S = 5.0
"""Seconds that records fetched by an observer may stay in the page cache.

Records lost in a power cut are fetched again; commits do not count them.
"""


class GroupCommit:
    """Fsyncs of one metadata log. All its work except the fsync itself runs in the node's queue."""

    def __init__(
        self,
        log: MetadataLog,
        disk: Disk,
        clock: Clock,
        queue: WorkQueue,
        background: Background,
        on_durable: Callable[[int], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """Create the group commit. `on_durable` gets the offset below which the log is durable, at the end of each flush.

        `on_error` gets the error of a failed fsync. After it the disk's content is unknown and nothing is flushed any more.
        """
        self._log = log
        self._disk = disk
        self._background = background
        self._on_durable = on_durable
        self._on_error = on_error
        self._flushing = False
        self._alarm = Alarm(clock, lambda: queue.put(self.flush))
        self._closed = False

    def flush(self) -> None:
        """Start an fsync of the appended records. During a flush do nothing: after it, `on_durable` leads to the next flush."""
        if self._flushing or self._closed:
            return
        flush = self._log.begin_flush()
        if flush is None:
            return
        self._flushing = True
        self._background.run_in_order(lambda: flush.run(self._disk), lambda error: self._flushed(flush, error))

    def flush_later(self) -> None:
        """Fsync, `FLUSH_INTERVAL_S` from now, the records appended until then."""
        if not self._alarm.is_set and not self._flushing:
            self._alarm.set(FLUSH_INTERVAL_S)

    def close(self) -> None:
        """Fsync the rest on this thread, unless a flush is under way. No flush starts afterwards."""
        self.abandon()
        if not self._flushing:
            self._log.log.flush()

    def abandon(self) -> None:
        """Start no flush any more, because the disk cannot be trusted."""
        self._closed = True
        self._alarm.close()

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._flushing = False
        if self._closed or error is not None:
            flush.release()
            if error is not None:
                self._on_error(error)
            return
        log = self._log.log
        log.finish_flush(flush)
        # Do not use flush.up_to: the log may since have been truncated and have grown again by records that this flush has not written.
        self._on_durable(log.recovery_point)
