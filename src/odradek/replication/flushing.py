"""Acknowledgements that wait for a flush (flush.messages): group commit in an executor.

The loop never waits for fsync. Records that are appended during a flush of their log join the next flush. The high watermark stays at the
flushed offset. So no consumer sees and no producer is told of records that a power cut could still take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk, out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.metrics.histogram import Histogram

if TYPE_CHECKING:
    from odradek.replication.partition import Partition
    from odradek.storage.flushing import Flush
    from odradek.storage.log import Log

_AGAIN_S = 1.0
"""Seconds until a flush that found no file descriptor is retried."""

RunJob = Callable[[Callable[[], None]], Deferred[None]]
"""Function that runs a blocking function in an executor; the simulator runs it inline."""


class Flusher:
    """Flusher of logs: at most one flush of a log at a time. A failed fsync is never retried: the log marks its directory as failed.

    A missing file descriptor is not a failed fsync: the flush is retried after a second, and its callers keep waiting.
    """

    __slots__ = ("_clock", "_disk", "_held", "_run_job", "_waiting", "times_ms")

    def __init__(self, disk: Disk, run_job: RunJob, clock: Clock | None = None) -> None:
        """Create the flusher. `clock` times flushes and retries; without it there is neither."""
        self._disk = disk
        self._clock = clock
        self.times_ms = Histogram()
        """Durations of flushes, in milliseconds."""
        self._run_job = run_job
        self._waiting: dict[TopicPartition, list[Deferred[None]]] = {}
        """Callers that wait for the next flush, by partition; a partition is a key while it is under flush or held."""
        self._held: dict[TopicPartition, Deferred[None]] = {}

    def flush(self, partition: Partition) -> Deferred[None]:
        """Return a deferred that completes when all records that are in the log now are durable; fails when the disk does."""
        done: Deferred[None] = Deferred()
        waiting = self._waiting.get(partition.topic_partition)
        if waiting is not None:
            waiting.append(done)
        else:
            self._waiting[partition.topic_partition] = []
            self._start(partition, [done])
        return done

    def hold(self, partition: Partition) -> Deferred[None]:
        """Begin no flush of the partition until `release`. Return a deferred that completes when no flush is in progress.

        Flushes that are requested in between wait.
        """
        key = partition.topic_partition
        done = self._held[key] = Deferred()
        if key not in self._waiting:
            self._waiting[key] = []
            done.complete(None)
        return done

    def release(self, partition: Partition) -> None:
        """End `hold`: flush for the callers that waited, on the log that the partition has by now."""
        held = self._held.pop(partition.topic_partition, None)
        if held is not None and held.done:
            self._next(partition)

    def _start(self, partition: Partition, callers: list[Deferred[None]]) -> None:
        log = partition.log
        if log is None:
            gone = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} was removed while it was flushed")
            self._finished(partition, callers, gone)
            return
        try:
            flush = log.begin_flush()
        except KafkaError as error:
            if self._postponed(partition, callers, error):
                return
            # The disk has failed since the append, perhaps under another log of the directory.
            self._finished(partition, callers, error)
            return
        if flush is None:
            self._finished(partition, callers, None)
            return
        begun = 0.0 if self._clock is None else self._clock.monotonic()
        self._run_job(lambda: flush.run(self._disk)).add_callback(lambda job: self._ran(partition, log, flush, callers, job.error, begun))

    def _ran(
        self, partition: Partition, log: Log, flush: Flush, callers: list[Deferred[None]], error: BaseException | None, begun: float
    ) -> None:
        if error is None:
            if self._clock is not None:
                now = self._clock.monotonic()
                self.times_ms.record((now - begun) * 1000, now)
            log.finish_flush(flush)
            partition.raise_high_watermark()
        else:
            log.durability.give_back(flush)
            if isinstance(error, OSError):
                log.failed(error)
            if self._postponed(partition, callers, error):
                return
        self._finished(partition, callers, error)

    def _postponed(self, partition: Partition, callers: list[Deferred[None]], error: BaseException) -> bool:
        """Return whether the flush is retried later because no file descriptor is free now."""
        if self._clock is None or not out_of_descriptors(error) or partition.topic_partition in self._held:
            return False
        self._clock.call_later(_AGAIN_S, self._start, partition, callers)
        return True

    def _finished(self, partition: Partition, callers: list[Deferred[None]], error: BaseException | None) -> None:
        held = self._held.get(partition.topic_partition)
        if held is None:
            self._next(partition)
        for caller in callers:
            if error is None:
                caller.complete(None)
            else:
                caller.fail(error)
        if held is None:
            return
        if self._held.get(partition.topic_partition) is held:
            held.complete(None)
        else:
            self._next(partition)

    def _next(self, partition: Partition) -> None:
        """Begin the flush that callers wait for, if any do."""
        later = self._waiting.pop(partition.topic_partition)
        if later:
            self._waiting[partition.topic_partition] = []
            self._start(partition, later)
