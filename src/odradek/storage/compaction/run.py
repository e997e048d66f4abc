"""Cleaning of a log from plan to checkpoint, in steps that alternate between an executor and the loop (ADR 5)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import KafkaError, OdradekError
from odradek.records.compaction import OffsetMap
from odradek.storage.compaction.cleaner import Cleaned, Cleaner, Moved, Wanted
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.plan import CleaningPlan, Source
from odradek.storage.compaction.swap import Swapped, swap_in
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

_SLICE_BYTES = 4 << 20
"""Bytes that a step reads and writes before the loop decides whether to continue: some ten milliseconds of work."""


class CleaningRun:
    """Cleaning in progress. Alternate `step` in an executor and `settle` on the loop, until `settle` returns None."""

    def __init__(
        self,
        manager: CleanerManager,
        log_manager: LogManager,
        plan: CleaningPlan,
        offset_map: OffsetMap,
        *,
        disk: Disk,
        clock: Clock,
        throttle: Throttle,
        buffer_bytes: int,
    ) -> None:
        self.plan = plan
        self._manager = manager
        self._log_manager = log_manager
        self._disk = disk
        self._clock = clock
        self._throttle = throttle
        self._cleaner = Cleaner(disk, plan, offset_map, buffer_bytes=buffer_bytes, now_ms=clock.time_ms())
        self._events = self._cleaner.run()
        self._event: Wanted | Cleaned | None = None
        self._moved = 0
        self._through = False
        self._error: Exception | None = None
        self._swapped: Swapped | None = None
        self._discarding = False
        self._taken: list[Source] = []
        self._began = clock.monotonic()

    # -- in an executor ----------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Work for some milliseconds; the result, or the error, is kept for `settle`."""
        try:
            if self._discarding:
                self._cleaner.discard()
            else:
                self._work()
        except Exception as error:  # any error concerns this log alone
            self._error = error

    def _work(self) -> None:
        if self._swapped is not None:
            self._swapped.sync()
            return
        limit = min(_SLICE_BYTES, self._throttle.slice_bytes)
        while not self.plan.stopped:
            event = next(self._events, None)
            if event is None:
                self._through = True
                return
            if not isinstance(event, Moved):
                self._event = event
                return
            self._moved += event.size
            if self._moved >= limit:
                return

    # -- on the loop -------------------------------------------------------------------------------------------------------------------

    def settle(self) -> float | None:
        """Handle the event of the last step, on the loop. Return the seconds until the next step, None when the cleaning has ended."""
        if self._discarding:
            self._end()
            return None
        if self._error is not None:
            return self._discard()
        if self._swapped is not None:
            self._swapped.finish()
            self._swapped = None
        if not self.plan.is_valid():
            return self._discard()
        if self._through:
            self._end()
            return None
        event, self._event = self._event, None
        if isinstance(event, Wanted):
            if not self._take(event.sources):
                return self._discard()
        elif isinstance(event, Cleaned) and not self._swap(event):
            return self._discard()
        moved, self._moved = self._moved, 0
        return self._throttle.observe(moved)

    def abandon(self, reason: str) -> None:
        """End the cleaning after `settle` has raised an unexpected error."""
        self._release()
        self._manager.failed(self.plan, reason)

    def _take(self, sources: Sequence[Source]) -> bool:
        """Pin the segments that are read next and release the others. Return False when a segment was removed or an open failed."""
        if not all(self.plan.holds(source) for source in sources):
            return False
        self._release()
        for source in sources:
            try:
                source.take()
            except OSError as error:
                self._error = error
                return False
            self._taken.append(source)
        return True

    def _release(self) -> None:
        for source in self._taken:
            source.release()
        self._taken.clear()

    def _swap(self, event: Cleaned) -> bool:
        try:
            self._swapped = swap_in(self._disk, self.plan, event.segment, event.sources, self._clock.time_ms())
        except KafkaError:
            # The log has reported its directory as failed.
            return False
        return self._swapped is not None

    def _discard(self) -> float:
        """Make the next step the last one, which removes the files of the unfinished cleaning."""
        self._release()
        self._discarding = True
        return 0.0

    def _end(self) -> None:
        """Report the result to the manager."""
        self._release()
        plan, manager, error = self.plan, self._manager, self._error
        if self._through and not self._discarding:
            manager.done(plan, self._cleaner.end_offset)
            self._report()
        elif error is None or not plan.is_valid():
            manager.dropped(plan)
            logger.info("The cleaning of %s was interrupted", plan.log.name)
        elif isinstance(error, OSError):
            manager.dropped(plan)
            self._log_manager.on_io_error(plan.log, error)
        else:
            if not isinstance(error, OdradekError):
                logger.error("Cleaning %s failed", plan.log.directory, exc_info=error)
            manager.failed(plan, str(error))

    def _report(self) -> None:
        stats, plan = self._cleaner.stats, self.plan
        self._manager.last_seconds = self._clock.monotonic() - self._began
        self._manager.last_utilization = stats.buffer_utilization
        self._manager.last_recopied = stats.bytes_written / stats.bytes_read if stats.bytes_read else 0.0
        logger.info(
            "%s: cleaned offsets %d to %d in %.1f s, %d segments of %.1f MB and %d records became %.1f MB and %d records",
            plan.log.name,
            plan.first_dirty,
            self._cleaner.end_offset,
            self._clock.monotonic() - self._began,
            stats.segments,
            stats.bytes_read / 1e6,
            stats.records_read,
            stats.bytes_written / 1e6,
            stats.records_written,
        )

    @property
    def cleaner(self) -> Cleaner:
        """Cleaner, whose figures can be read when the run has ended."""
        return self._cleaner
