"""Log cleaner: log.cleaner.threads cleanings at a time, each a chain of executor calls (Kafka's LogCleaner)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.timing import Alarm
from odradek.config.keys.log import (
    LOG_CLEANER_BACKOFF_MS,
    LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    LOG_CLEANER_ENABLE,
    LOG_CLEANER_IO_BUFFER_LOAD_FACTOR,
    LOG_CLEANER_IO_BUFFER_SIZE,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    LOG_CLEANER_THREADS,
)
from odradek.server.step import Step
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.log_directory import write_checkpoints

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.server.start.node import Node
    from odradek.server.upkeep.jobs import Jobs
    from odradek.storage.compaction.run import CleaningRun
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

RECONFIGURED_BY = (LOG_CLEANER_THREADS, LOG_CLEANER_IO_MAX_BYTES_PER_SECOND, LOG_CLEANER_BACKOFF_MS)
"""Keys that take effect at once; the other log.cleaner.* keys take effect with the next cleaning."""
_LARGEST_MAP = 0x7FFFFFFF
"""Bytes of the dedupe buffer that one thread can use, at most."""


class LogCleaner:
    """Cleaner of a node, started once and stopped once. Everything runs on the loop, except for executor calls.

    Kafka stops its cleanings when its threads or buffers are reconfigured. Here they continue, and later cleanings use the new values.
    """

    def __init__(self, config: DynamicBrokerConfig, clock: Clock, jobs: Jobs, disk: Disk, log_manager: LogManager) -> None:
        self._config = config
        self._clock = clock
        self._jobs = jobs
        self._disk = disk
        self._log_manager = log_manager
        self.manager = CleanerManager(disk, log_manager)
        self._throttle = Throttle(clock, config[LOG_CLEANER_IO_MAX_BYTES_PER_SECOND])
        self._workers: list[_Worker] = []
        self._stopped: Deferred[None] | None = None
        self._writing = 0
        """Executor calls under way that write checkpoints."""
        log_manager.cleaner = self.manager
        config.subscribe(RECONFIGURED_BY, self._reconfigured)

    def start(self) -> None:
        """Start the workers."""
        self._reconfigured()

    def stop(self) -> Deferred[None]:
        """Stop all workers and cleanings. The Deferred completes when the last step has left the executor, some milliseconds later."""
        if self._stopped is None:
            self._stopped = Deferred()
            for plan in self.manager.running:
                plan.stopped = True
            for worker in list(self._workers):
                worker.retire()
            self._look_whether_done()
        return self._stopped

    def _reconfigured(self) -> None:
        if self._stopped is not None:
            return
        self._throttle.rate = self._config[LOG_CLEANER_IO_MAX_BYTES_PER_SECOND]
        wanted = self._config[LOG_CLEANER_THREADS]
        at_work = [worker for worker in self._workers if not worker.retiring]
        for worker in at_work[wanted:]:
            worker.retire()
        for worker in at_work[:wanted]:
            worker.wake()
        for _ in range(wanted - len(at_work)):
            self._workers.append(_Worker(self))

    # -- for the workers ---------------------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def jobs(self) -> Jobs:
        return self._jobs

    @property
    def backoff_s(self) -> float:
        """Seconds to wait when no log needs cleaning."""
        return self._config[LOG_CLEANER_BACKOFF_MS] / 1000

    def begin(self) -> CleaningRun | None:
        """Return the most urgent cleaning, with the current configuration; None when no log needs cleaning."""
        plan = self.manager.grab_filthiest(self._clock.time_ms())
        if plan is None:
            return None
        # Import the modules of the work with the first cleaning, to keep them out of the start.
        from odradek.records.compaction import OffsetMap
        from odradek.storage.compaction.run import CleaningRun

        config = self._config
        threads = max(config[LOG_CLEANER_THREADS], 1)
        memory = min(config[LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads, _LARGEST_MAP)
        try:
            offset_map = OffsetMap(memory, load_factor=config[LOG_CLEANER_IO_BUFFER_LOAD_FACTOR])
        except ValueError as error:
            logger.error("log.cleaner.io.buffer.load.factor and log.cleaner.dedupe.buffer.size leave no room for compaction: %s", error)
            self.manager.dropped(plan)
            return None
        return CleaningRun(
            self.manager,
            self._log_manager,
            plan,
            offset_map,
            disk=self._disk,
            clock=self._clock,
            throttle=self._throttle,
            buffer_bytes=config[LOG_CLEANER_IO_BUFFER_SIZE] // threads // 2,
        )

    def ended(self) -> None:
        """Delete old segments of compacted logs whose policy asks for it, and write the cleaner's checkpoints. A worker calls this after
        each cleaning, and after each search without a result.
        """
        if self._stopped is None:
            self.manager.delete_old_segments()
        writes = self.manager.take_checkpoint_writes()
        if not writes:
            return
        self._writing += 1
        self._jobs.run(lambda: write_checkpoints(writes)).add_callback(self._written)

    def _written(self, done: Deferred[list[tuple[str, OSError]]]) -> None:
        self._writing -= 1
        if done.error is not None:
            logger.error("writing the cleaner's checkpoints failed", exc_info=done.error)
        else:
            self._log_manager.finish_checkpoints(done.result())
        self._look_whether_done()

    def gone(self, worker: _Worker) -> None:
        """Remove a worker that has retired."""
        self._workers.remove(worker)
        self._look_whether_done()

    def _look_whether_done(self) -> None:
        if self._stopped is not None and not self._workers and not self._writing:
            self._stopped.complete(None)


class _Worker:
    """Counterpart of a thread in Kafka's cleaner: searches a log, cleans it, searches again, and pauses when no log needs cleaning."""

    def __init__(self, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner
        self._run: CleaningRun | None = None
        self._alarm = Alarm(cleaner.clock, self._go_on)
        self._alarm.set(0)
        self.retiring = False

    def retire(self) -> None:
        """Stop the worker, after its current cleaning."""
        self.retiring = True
        if self._alarm.is_set and (self._run is None or self._run.plan.stopped):
            # No step runs in the executor: the worker waits for work, or for the throttle.
            self._alarm.cancel()
            if self._run is None:
                self._cleaner.gone(self)
            else:
                self._step()

    def wake(self) -> None:
        """Search for work now when the worker is idle."""
        if self._run is None and self._alarm.is_set:
            self._alarm.set(0)

    def _go_on(self) -> None:
        if self._run is None:
            self._look()
        else:
            self._step()

    def _look(self) -> None:
        try:
            self._run = self._cleaner.begin()
            if self._run is None:
                self._cleaner.ended()
        except Exception:
            logger.exception("searching for logs to compact failed")
        if self._run is not None:
            self._step()
        else:
            self._again(self._cleaner.backoff_s)

    def _again(self, delay_s: float) -> None:
        if self.retiring:
            self._cleaner.gone(self)
        else:
            self._alarm.set(delay_s)

    def _step(self) -> None:
        assert self._run is not None
        self._cleaner.jobs.run(self._run.step).add_callback(lambda _: self._settle())

    def _settle(self) -> None:
        run = self._run
        assert run is not None
        try:
            delay_s = run.settle()
        except Exception as error:
            # A worker must survive errors: other logs need cleaning, too.
            logger.exception("cleaning %s failed", run.plan.log.directory)
            run.abandon(str(error))
            delay_s = None
        if delay_s is None:
            self._run = None
            try:
                self._cleaner.ended()
            except Exception:
                logger.exception("deleting old segments after a cleaning failed")
            self._again(0)
        elif delay_s > 0:
            self._alarm.set(delay_s)
        else:
            self._step()


class CleanLogs(Step[None]):
    """Step that starts the log cleaner, unless log.cleaner.enable is off. Its stop waits until the cleanings under way have stopped."""

    name = "cleaner"
    stop_timeout_s = 10.0

    def __init__(self, node: Node, log_manager: LogManager) -> None:
        self._node = node
        self._log_manager = log_manager
        self._cleaner: LogCleaner | None = None

    async def start(self) -> None:
        node, config = self._node, self._node.services.dynamic_config
        if config[LOG_CLEANER_ENABLE]:
            self._cleaner = LogCleaner(config, node.clock, node.jobs, node.disk, self._log_manager)
            self._cleaner.start()

    async def stop(self) -> None:
        if self._cleaner is not None:
            await self._cleaner.stop()
