"""Periodic tasks of a broker, at Kafka's intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.disk import out_of_descriptors
from odradek.base.timing import Alarm
from odradek.config.definition import Key
from odradek.config.keys.log import (
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_INITIAL_TASK_DELAY_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
)
from odradek.config.keys.replication import REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS, REPLICA_LAG_TIME_MAX_MS
from odradek.config.keys.transactions import (
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS,
    TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS,
)
from odradek.server.step import Step
from odradek.server.upkeep.jobs import Jobs, Task, Work

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.metadata.image import MetadataImage
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.cluster.coordinators import Coordinators
    from odradek.server.cluster.publisher import BrokerPublisher
    from odradek.server.start.node import Node
    from odradek.storage.log import Log
    from odradek.storage.log_directory import DirectoryWrite
    from odradek.storage.log_manager import LogManager

_DELETE_INTERVAL_S = 10.0
_RETENTION_SLICE = 50
"""Logs that one loop iteration checks: some milliseconds when their timestamps have to be read."""
_SHORTEST_FLUSH_INTERVAL_S = 0.01
_TOPIC = 2
"""Value of ConfigResource.Type.TOPIC."""
_AGAIN_S = 1.0
"""Seconds until a retry of writes that failed for lack of a file descriptor."""
_NEVER_S = 10 * 365 * 86400.0
"""Seconds; intervals of ten years and more mean "off" (log.flush.scheduler.interval.ms is Long.MAX by default)."""


class BrokerTasks:
    """Periodic tasks of a broker, started once and stopped once."""

    def __init__(
        self,
        config: DynamicBrokerConfig,
        clock: Clock,
        jobs: Jobs,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        coordinators: Coordinators,
    ) -> None:
        self._config = config
        self._clock = clock
        self._jobs = jobs
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._tasks: list[Task] = []
        self._new_names = Alarm(clock, self._sync_new_names)
        self._syncing_names = False
        self._stopped = False
        log_manager.options.on_roll = self._flush_rolled
        log_manager.on_created = self._created

        def every(name: str, key: Key[int], work: Work) -> None:
            self._add(name, config[key] / 1000, work, None)

        def of_logs(name: str, key: Key[int], work: Work) -> None:
            self._add(name, config[key] / 1000, work, self._initial_delay_s(key))

        of_logs("log-retention", LOG_RETENTION_CHECK_INTERVAL_MS, self._retention)
        of_logs("recovery-point-checkpoint", LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS, self._recovery_points)
        of_logs("log-start-offset-checkpoint", LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS, self._log_start_offsets)
        every("producer-expiration", PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS, log_manager.expire_producers)
        every("high-watermark-checkpoint", REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS, replica_manager.checkpoint_high_watermarks)
        every(
            "transaction-abort",
            TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS,
            coordinators.abort_timed_out_transactions,
        )
        every(
            "transactional-id-expiration",
            TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS,
            coordinators.remove_expired_transactional_ids,
        )
        self._flush_task: Task | None = None
        self._flush_interval_s = _NEVER_S
        self._add("isr-expiration", config[REPLICA_LAG_TIME_MAX_MS] / 2000, replica_manager.shrink_isrs, None)
        self._add("log-deletion", _DELETE_INTERVAL_S, self._delete, None)

    def _initial_delay_s(self, interval_key: Key[int]) -> float:
        """Return seconds until the first run of a task that LogManager.startup schedules.

        The delay is log.initial.task.delay.ms, which leaves time for the rest of the start. Unless that key is set, the delay is at most
        the task's own interval.
        """
        delay_ms = self._config[LOG_INITIAL_TASK_DELAY_MS]
        if not self._config.static.is_set(LOG_INITIAL_TASK_DELAY_MS):
            delay_ms = min(delay_ms, self._config[interval_key])
        return delay_ms / 1000

    def _add(self, name: str, interval_s: float, work: Work, delay_s: float | None) -> None:
        if interval_s < _NEVER_S:
            self._tasks.append(Task(name, interval_s, work, self._clock, delay_s=delay_s))

    def configured(self, image: MetadataImage) -> None:
        """Apply changed configurations: check logs for flushes at the shortest flush.ms of any topic or of the broker.

        (Kafka checks only every log.flush.scheduler.interval.ms, by default never, whatever the value of flush.ms.)
        """
        shortest_ms = self._config.current.log_flush_interval_ms
        for (kind, topic), overrides in image.configs.resources.items():
            if kind == _TOPIC and "flush.ms" in overrides:
                shortest_ms = min(shortest_ms, self._config.topic_config(image.configs.topic(topic)).flush_ms)
        interval_s = max(shortest_ms / 1000, _SHORTEST_FLUSH_INTERVAL_S)
        if interval_s == self._flush_interval_s:
            return
        self._flush_interval_s = interval_s
        if self._flush_task is not None:
            self._flush_task.stop()
            self._flush_task = None
        if interval_s < _NEVER_S:
            self._flush_task = Task("log-flush", interval_s, self._flush, self._clock)

    def stop(self) -> None:
        """Begin no further run."""
        self._stopped = True
        if self._flush_task is not None:
            self._flush_task.stop()
        self._new_names.close()
        for task in self._tasks:
            task.stop()
        self._tasks.clear()

    def _retention(self) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._retain(self._log_manager.cleanup_steps(), done)
        return done

    def _retain(self, steps: Iterator[object], done: Deferred[None]) -> None:
        """Check some logs now, and the others in later loop iterations, after other work of the loop."""
        if self._stopped:
            done.complete(None)
            return
        try:
            seen = len(list(islice(steps, _RETENTION_SLICE)))
        except Exception as error:
            done.fail(error)
            return
        if seen < _RETENTION_SLICE:
            done.complete(None)
        else:
            self._clock.call_later(0, self._retain, steps, done)

    def _recovery_points(self) -> Deferred[None] | None:
        return self._checkpoint(self._log_manager.begin_recovery_points())

    def _log_start_offsets(self) -> Deferred[None] | None:
        return self._checkpoint(self._log_manager.begin_log_start_offsets())

    def _created(self) -> None:
        """Schedule one fsync for the names of all logs that are made in the same loop iteration, or while an earlier fsync is under way."""
        if not self._new_names.is_set and not self._syncing_names:
            self._new_names.set(0)

    def _sync_new_names(self) -> None:
        failed: list[tuple[str, OSError]] = []
        writes = self._log_manager.names.begin()
        done = self._checkpoint(writes, failed)
        if done is not None:
            self._syncing_names = True
            done.add_callback(lambda _: self._names_synced(writes, failed))

    def _names_synced(self, writes: Sequence[DirectoryWrite], failed: Sequence[tuple[str, OSError]]) -> None:
        self._syncing_names = False
        if any(out_of_descriptors(error) for _, error in failed):
            self._log_manager.names.put_back(writes)
            self._new_names.set(_AGAIN_S)
        elif self._log_manager.names:
            self._created()

    def _checkpoint(self, writes: Sequence[DirectoryWrite], failed: list[tuple[str, OSError]] | None = None) -> Deferred[None] | None:
        if not writes:
            return None
        failed = [] if failed is None else failed

        def run() -> None:
            from odradek.storage.log_directory import write_checkpoints

            failed.extend(write_checkpoints(writes))

        done = self._jobs.run(run)
        done.add_callback(lambda _: self._log_manager.finish_checkpoints(failed))
        return done

    def _delete(self) -> Deferred[None] | None:
        deletion = self._log_manager.due_deletions()
        if deletion is None:
            return None

        def run() -> None:
            deletion.run()

        done = self._jobs.run(run)
        done.add_callback(lambda _: self._log_manager.finish_deletion(deletion))
        return done

    def _flush(self) -> None:
        for log in self._log_manager.logs_to_flush():
            self._flush_log(log)

    def _flush_rolled(self, log: Log) -> None:
        """Flush a finished segment in the background, as in Kafka, so that recovery never has to read the segment."""
        self._clock.call_later(0, self._flush_log, log)

    def _flush_log(self, log: Log) -> None:
        partition = self._replica_manager.partitions.by_name.get(log.topic_partition)
        if partition is not None and partition.log is log:
            self._replica_manager.flusher.flush(partition)


class RunTasks(Step[BrokerTasks]):
    """Step that begins the periodic tasks: retention, checkpoints, deletions, ISR checks."""

    name = "tasks"

    def __init__(self, node: Node, log_manager: LogManager, replica_manager: ReplicaManager, publisher: BrokerPublisher) -> None:
        self._node = node
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._publisher = publisher
        self._tasks: BrokerTasks | None = None

    async def start(self) -> BrokerTasks:
        node, services = self._node, self._node.services
        self._tasks = BrokerTasks(
            services.dynamic_config, node.clock, node.jobs, self._log_manager, self._replica_manager, self._publisher.coordinators
        )
        self._tasks.configured(services.metadata.image)
        self._publisher.on_configured = self._tasks.configured
        return self._tasks

    async def stop(self) -> None:
        if self._tasks is not None:
            self._tasks.stop()
