"""Metrics of a broker's replicas, logs and fetchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.config.keys.transactions import TRANSACTION_MAX_TIMEOUT_MS
from odradek.metrics.histogram import Distribution
from odradek.replication.partition import Role
from odradek.storage.compaction.manager import CleanerManager

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.ids import TopicPartition
    from odradek.metrics.registry import Registry, Series, Value
    from odradek.replication.fetchers import ReplicaFetchers
    from odradek.replication.partition import Partition
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.replication.transaction_verifier import ChannelVerifier
    from odradek.server.cluster.coordinators import Coordinators
    from odradek.storage.loading import LoadProgress
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager

_PARTITION = ("topic", "partition")
_DIRECTORY = ("logDirectory",)
_CLIENT = ("clientId",)
_SLICE = 250
"""Partitions that are read in one slice."""
_LATE_MS = 5 * 60 * 1000
"""Milliseconds beyond transaction.max.timeout.ms after which an open transaction is late (ProducerStateManager.LATE_TRANSACTION_BUFFER_MS).
"""
_FRESH_S = 1.0
"""Seconds for which one reading of the partitions serves the metrics of a scrape."""


class Row(NamedTuple):
    """Snapshot of a hosted partition. `led` to `reassigning`, except `offline`, are 0 where the partition is not led here."""

    tags: tuple[str, str]
    led: int
    offline: int
    under_replicated: int
    in_sync: int
    under_min_isr: int
    at_min_isr: int
    replicas: int
    unstable: int
    reassigning: int
    producers: int
    late: int
    size: int
    segments: int
    start: int
    end: int
    has_log: bool


def row_of(key: TopicPartition, partition: Partition, late_ms: int, *, moving: bool) -> Row:
    """Return the snapshot of a partition. `moving`: whether the metadata is reassigning its replicas. A transaction is late when its last
    write is older than `late_ms`.
    """
    log: Log | None = partition.log
    tags = (key.topic, str(key.partition))
    if log is None:
        return Row(tags, 0, int(partition.role is Role.OFFLINE), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, has_log=False)
    led = in_sync = replicas = min_isr = unstable = 0
    if partition.is_leader:
        led = 1
        in_sync, replicas, min_isr = len(partition.isr.isr), len(partition.replica_ids), partition.min_isr
        unstable = max(log.high_watermark - log.last_stable_offset, 0)
    state = log.producer_state
    return Row(
        tags,
        led,
        0,
        int(in_sync < replicas),
        in_sync,
        int(bool(led) and in_sync < min_isr),
        int(bool(led) and in_sync == min_isr),
        replicas,
        unstable,
        int(bool(led) and moving),
        len(state.producers),
        int(state.has_late_transaction(late_ms)),
        log.size,
        len(log.segments),
        log.log_start_offset,
        log.log_end_offset,
        has_log=True,
    )


class ReplicaSource:
    """Metrics ReplicaManager, Partition and Log. All values of a scrape come from one pass over the partitions, made in slices."""

    def __init__(self, manager: Callable[[], ReplicaManager | None], clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._rows: list[Row] = []
        self._looked_at: float | None = None

    def add_to(self, registry: Registry) -> None:
        def total(key: str, of: Callable[[Row], int]) -> None:
            registry.add(key, lambda: self._total(of))

        def each(key: str, of: Callable[[Row], int], *, logs: bool = False) -> None:
            registry.add(key, lambda: self._each(of, logs=logs))

        manager = "kafka.server:type=ReplicaManager,name="
        total(manager + "LeaderCount", lambda row: row.led)
        total(manager + "PartitionCount", lambda row: 1)
        total(manager + "OfflineReplicaCount", lambda row: row.offline)
        total(manager + "UnderReplicatedPartitions", lambda row: row.under_replicated)
        total(manager + "UnderMinIsrPartitionCount", lambda row: row.under_min_isr)
        total(manager + "AtMinIsrPartitionCount", lambda row: row.at_min_isr)
        total(manager + "ReassigningPartitions", lambda row: row.reassigning)
        total(manager + "PartitionsWithLateTransactionsCount", lambda row: row.late)
        total(manager + "ProducerIdCount", lambda row: row.producers)
        for name, field in (
            ("IsrShrinksPerSec", "isr_shrinks"),
            ("IsrExpandsPerSec", "isr_expands"),
            ("FailedIsrUpdatesPerSec", "isr_failures"),
        ):
            registry.add(manager + name, self._isr(field))
        partition = "kafka.cluster:type=Partition,name="
        each(partition + "UnderReplicated", lambda row: row.under_replicated)
        each(partition + "InSyncReplicasCount", lambda row: row.in_sync)
        each(partition + "UnderMinIsr", lambda row: row.under_min_isr)
        each(partition + "AtMinIsr", lambda row: row.at_min_isr)
        each(partition + "ReplicasCount", lambda row: row.replicas)
        each(partition + "LastStableOffsetLag", lambda row: row.unstable)
        log = "kafka.log:type=Log,name="
        each(log + "Size", lambda row: row.size, logs=True)
        each(log + "NumLogSegments", lambda row: row.segments, logs=True)
        each(log + "LogStartOffset", lambda row: row.start, logs=True)
        each(log + "LogEndOffset", lambda row: row.end, logs=True)
        self._add_waiting(registry)

    def _add_waiting(self, registry: Registry) -> None:
        def sizes() -> Iterator[Series]:
            manager = self._manager()
            if manager is None:
                return
            delayed = manager.delayed
            counts = {
                "Produce": len(delayed.acks) + len(delayed.produce),
                "Fetch": len(delayed.fetch),
                "DeleteRecords": len(delayed.delete_records),
            }
            for name, count in counts.items():
                yield ("delayedOperation",), (name,), count

        for name in ("PurgatorySize", "NumDelayedOperations"):
            registry.add(f"kafka.server:type=DelayedOperationPurgatory,name={name}", sizes)

        def sessions(of: Callable[[ReplicaManager], int]) -> Callable[[], Iterator[Series]]:
            def read() -> Iterator[Series]:
                manager = self._manager()
                if manager is not None:
                    yield (), (), of(manager)

            return read

        cache = "kafka.server:type=FetchSessionCache,name="
        registry.add(cache + "NumIncrementalFetchSessions", sessions(lambda manager: len(manager.fetch_sessions)))
        registry.add(cache + "NumIncrementalFetchPartitionsCached", sessions(lambda manager: manager.fetch_sessions.cached_partitions))
        registry.add(cache + "IncrementalFetchSessionEvictionsPerSec", sessions(lambda manager: manager.fetch_sessions.evictions))

    def _isr(self, field: str) -> Callable[[], Iterator[Series]]:
        def read() -> Iterator[Series]:
            manager = self._manager()
            if manager is not None:
                value: int = getattr(manager.traffic.total(), field)
                yield (), (), value

        return read

    def _total(self, of: Callable[[Row], int]) -> Iterator[Series | None]:
        yield from self._look()
        if self._looked_at is not None:
            yield (), (), sum(map(of, self._rows))

    def _each(self, of: Callable[[Row], int], *, logs: bool) -> Iterator[Series | None]:
        yield from self._look()
        for row in self._rows:
            if row.has_log or not logs:
                yield _PARTITION, row.tags, of(row)

    def _look(self) -> Iterator[None]:
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _FRESH_S:
            return
        manager = self._manager()
        if manager is None:
            return
        late_ms = self._clock.time_ms() - manager.dynamic_config[TRANSACTION_MAX_TIMEOUT_MS] - _LATE_MS
        rows: list[Row] = []
        for number, (key, partition) in enumerate(list(manager.partitions.by_name.items())):
            if number % _SLICE == _SLICE - 1:
                yield None
            rows.append(row_of(key, partition, late_ms, moving=manager.cluster.is_reassigning(key)))
        self._rows = rows
        self._looked_at = self._clock.monotonic()


def add_fetchers(registry: Registry, fetchers: Callable[[], ReplicaFetchers | None]) -> None:
    """Register ReplicaFetcherManager and FetcherLagMetrics."""

    def lags() -> Iterator[Series | None]:
        now = fetchers()
        if now is None:
            return
        for client, key, lag in now.lags():
            yield ("clientId", "topic", "partition"), (client, key.topic, str(key.partition)), lag

    def largest() -> Iterator[Series]:
        now = fetchers()
        yield _CLIENT, ("Replica",), 0 if now is None else max((lag for _, _, lag in now.lags()), default=0)

    def failed() -> Iterator[Series]:
        now = fetchers()
        yield _CLIENT, ("Replica",), 0 if now is None else now.failed

    def nothing() -> Iterator[Series]:
        yield _CLIENT, ("Replica",), 0

    manager = "kafka.server:type=ReplicaFetcherManager,name="
    registry.add(manager + "MaxLag", largest)
    registry.add(manager + "MinFetchRate", nothing)
    registry.add(manager + "FailedPartitionsCount", failed)
    registry.add(manager + "DeadThreadCount", nothing)
    registry.add("kafka.server:type=FetcherLagMetrics,name=ConsumerLag", lags)


def add_waits(
    registry: Registry, replicas: Callable[[], ReplicaManager | None], coordinators: Callable[[], Coordinators | None], clock: Clock
) -> None:
    """Register the metrics of expired waits, and of waiting times."""

    def fetches() -> Iterator[Series]:
        manager = replicas()
        if manager is not None:
            for kind in ("consumer", "follower"):
                yield ("fetcherType",), (kind,), manager.delayed.fetch.expired.get(kind, 0)

    def expired(of: Callable[[ReplicaManager], int]) -> Callable[[], Iterator[Series]]:
        def read() -> Iterator[Series]:
            manager = replicas()
            if manager is not None:
                yield (), (), of(manager)

        return read

    registry.add("kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec", fetches)
    registry.add(
        "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec",
        expired(lambda manager: manager.delayed.acks.expired + sum(manager.delayed.produce.expired.values())),
    )
    registry.add(
        "kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec",
        expired(lambda manager: sum(manager.delayed.delete_records.expired.values())),
    )

    def verifier() -> ChannelVerifier | None:
        made = coordinators()
        return None if made is None else made.made_verifier

    def failures() -> Iterator[Series]:
        made = verifier()
        yield (), (), 0 if made is None else made.failures

    def times() -> Iterator[Series]:
        made = verifier()
        yield (), (), Distribution() if made is None else made.times_ms.read(clock.monotonic())

    manager = "kafka.server:type=AddPartitionsToTxnManager,name=Verification"
    registry.add(manager + "FailureRate", failures)
    registry.add(manager + "TimeMs", times)


def add_logs(
    registry: Registry,
    log_manager: Callable[[], LogManager | None],
    replicas: Callable[[], ReplicaManager | None],
    recovery: Callable[[], Mapping[str, LoadProgress]],
    clock: Clock,
) -> None:
    """Register LogManager and the cleaner."""

    def directories(of: Callable[[LogManager, str], Value]) -> Callable[[], Iterator[Series]]:
        def read() -> Iterator[Series]:
            manager = log_manager()
            if manager is not None:
                for directory in manager.directories:
                    yield _DIRECTORY, (directory.path,), of(manager, directory.path)

        return read

    def offline() -> Iterator[Series]:
        manager = log_manager()
        if manager is not None:
            yield (), (), sum(1 for directory in manager.directories if not directory.online)

    def is_offline(manager: LogManager, path: str) -> int:
        directory = manager.directory(path)
        return int(directory is None or not directory.online)

    def flushes() -> Iterator[Series]:
        manager = replicas()
        if manager is not None:
            yield (), (), manager.flusher.times_ms.read(clock.monotonic())

    def uncleanable(manager: LogManager, path: str) -> list[TopicPartition]:
        cleaner = manager.cleaner
        return [] if cleaner is None else list(cleaner.uncleanable_in(path))

    def uncleanable_bytes(manager: LogManager, path: str) -> int:
        logs = (manager.get_log(key) for key in uncleanable(manager, path))
        return sum(log.size for log in logs if log is not None)

    registry.add("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", offline)
    registry.add("kafka.log:type=LogManager,name=LogDirectoryOffline", directories(is_offline))

    def is_cordoned(manager: LogManager, path: str) -> int:
        directory = manager.directory(path)
        return int(directory is not None and directory.cordoned)

    def cordoned() -> Iterator[Series]:
        manager = log_manager()
        if manager is not None:
            yield (), (), sum(directory.cordoned for directory in manager.directories)

    registry.add("kafka.log:type=LogManager,name=CordonedLogDirectoryCount", cordoned)
    registry.add("kafka.log:type=LogManager,name=LogDirectoryCordoned", directories(is_cordoned))

    def logs_to_recover() -> Iterator[Series]:
        for path, progress in list(recovery().items()):
            yield ("dir",), (path,), max(progress.total - progress.done - 1, 0)

    def segments_to_recover() -> Iterator[Series]:
        for path, progress in list(recovery().items()):
            yield ("dir", "threadNum"), (path, "0"), max(progress.segments_total - progress.segments_done, 0)

    registry.add("kafka.log:type=LogManager,name=remainingLogsToRecover", logs_to_recover)
    registry.add("kafka.log:type=LogManager,name=remainingSegmentsToRecover", segments_to_recover)
    registry.add("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", flushes)
    cleaner = "kafka.log:type=LogCleanerManager,name=uncleanable-"
    registry.add(cleaner + "partitions-count", directories(lambda manager, path: len(uncleanable(manager, path))))
    registry.add(cleaner + "bytes", directories(uncleanable_bytes))

    def of_cleaner(key: str, of: Callable[[CleanerManager], int]) -> None:
        def read() -> Iterator[Series]:
            manager = log_manager()
            made = None if manager is None else manager.cleaner
            yield (), (), of(made) if isinstance(made, CleanerManager) else 0

        registry.add(key, read)

    of_cleaner("kafka.log:type=LogCleanerManager,name=max-dirty-percent", lambda made: int(made.dirtiest * 100))
    of_cleaner(
        "kafka.log:type=LogCleanerManager,name=time-since-last-run-ms",
        lambda made: 0 if made.looked_ms is None else max(clock.time_ms() - made.looked_ms, 0),
    )
    of_cleaner("kafka.log:type=LogCleaner,name=cleaner-recopy-percent", lambda made: int(made.last_recopied * 100))
    of_cleaner("kafka.log:type=LogCleaner,name=max-buffer-utilization-percent", lambda made: int(made.last_utilization * 100))
    of_cleaner("kafka.log:type=LogCleaner,name=max-clean-time-secs", lambda made: int(made.last_seconds))
    registry.add("kafka.log:type=LogCleaner,name=DeadThreadCount", lambda: [((), (), 0)])
