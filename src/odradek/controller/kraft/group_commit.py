"""The fsyncs of the metadata log: one at a time, and what is appended meanwhile shares the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock, TimerHandle
from odradek.base.disk import Disk
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.queue import WorkQueue

if TYPE_CHECKING:
    from odradek.storage.flushing import Flush

FLUSH_INTERVAL_S = 5.0
"""How long what an observer has fetched may stay in the page cache. What a power cut takes is fetched again; nobody counts on it."""


class GroupCommit:
    """All of it in pieces of the queue's work, but for the fsyncs themselves."""

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
        """`on_durable` is told up to which offset the log is durable, at the end of each flush. `on_error` is told when an fsync failed:
        after that nobody knows what is on the disk, and nothing is flushed again.
        """
        self._log = log
        self._disk = disk
        self._clock = clock
        self._queue = queue
        self._background = background
        self._on_durable = on_durable
        self._on_error = on_error
        self._flushing = False
        self._timer: TimerHandle | None = None
        self._closed = False

    def flush(self) -> None:
        """Makes durable what has been appended. While a flush is under way nothing happens: `on_durable` tells what is still to be done."""
        if self._flushing or self._closed:
            return
        flush = self._log.begin_flush()
        if flush is None:
            return
        self._flushing = True
        self._background.run_in_order(lambda: flush.run(self._disk), lambda error: self._flushed(flush, error))

    def flush_later(self) -> None:
        """Makes durable what will have been appended in `FLUSH_INTERVAL_S`."""
        if self._timer is None and not self._flushing and not self._closed:
            self._timer = self._clock.call_later(FLUSH_INTERVAL_S, self._interval_over)

    def close(self) -> None:
        """Flushes what is left, on this thread, unless a flush is under way; none begins after that."""
        self.abandon()
        if not self._flushing:
            self._log.log.flush()

    def abandon(self) -> None:
        """No flush begins any more: the disk cannot be trusted."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _interval_over(self) -> None:
        self._timer = None
        self._queue.put(self.flush)

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._flushing = False
        if self._closed or error is not None:
            flush.release()
            if error is not None:
                self._on_error(error)
            return
        log = self._log.log
        log.finish_flush(flush)
        # Not flush.up_to: the log may have been cut meanwhile and have grown again, by records that this flush has not seen.
        self._on_durable(log.recovery_point)
