"""Metrics of a broker's replicas, logs and fetchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.config.keys.transactions import TRANSACTION_MAX_TIMEOUT_MS
from odradek.metrics.histogram import Distribution
from odradek.metrics.registry import by, read_one
from odradek.replication.roles import Role
from odradek.storage.compaction.manager import CleanerManager

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.ids import TopicPartition
    from odradek.metrics.registry import Read, Registry, Series
    from odradek.metrics.traffic import TopicTraffic
    from odradek.replication.fetchers import ReplicaFetchers
    from odradek.replication.partition import Partition
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.replication.transaction_verifier import ChannelVerifier
    from odradek.server.cluster.coordinators import Coordinators
    from odradek.storage.loading import LoadProgress
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory
    from odradek.storage.log_manager import LogManager

_PARTITION = ("topic", "partition")
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

        def changed(key: str, of: Callable[[TopicTraffic], int]) -> None:
            registry.add(key, read_one(self._manager, lambda replicas: of(replicas.traffic.total())))

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
        changed(manager + "IsrShrinksPerSec", lambda traffic: traffic.isr_shrinks)
        changed(manager + "IsrExpandsPerSec", lambda traffic: traffic.isr_expands)
        changed(manager + "FailedIsrUpdatesPerSec", lambda traffic: traffic.isr_failures)
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

        cache = "kafka.server:type=FetchSessionCache,name="
        add = registry.add
        add(cache + "NumIncrementalFetchSessions", read_one(self._manager, lambda manager: len(manager.fetch_sessions)))
        add(
            cache + "NumIncrementalFetchPartitionsCached",
            read_one(self._manager, lambda manager: manager.fetch_sessions.cached_partitions),
        )
        add(cache + "IncrementalFetchSessionEvictionsPerSec", read_one(self._manager, lambda manager: manager.fetch_sessions.evictions))

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

    def of_replicas(of: Callable[[ReplicaFetchers], int]) -> Read:
        def read() -> list[Series]:
            now = fetchers()
            return by("clientId", {"Replica": 0 if now is None else of(now)})

        return read

    manager = "kafka.server:type=ReplicaFetcherManager,name="
    registry.add(manager + "MaxLag", of_replicas(lambda now: max((lag for _, _, lag in now.lags()), default=0)))
    registry.add(manager + "MinFetchRate", of_replicas(lambda now: 0))
    registry.add(manager + "FailedPartitionsCount", of_replicas(lambda now: now.failed))
    registry.add(manager + "DeadThreadCount", of_replicas(lambda now: 0))
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

    registry.add("kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec", fetches)
    registry.add(
        "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec",
        read_one(replicas, lambda manager: manager.delayed.acks.expired + sum(manager.delayed.produce.expired.values())),
    )
    registry.add(
        "kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec",
        read_one(replicas, lambda manager: sum(manager.delayed.delete_records.expired.values())),
    )

    def verifier() -> ChannelVerifier | None:
        made = coordinators()
        return None if made is None else made.made_verifier

    manager = "kafka.server:type=AddPartitionsToTxnManager,name=Verification"
    registry.add(manager + "FailureRate", read_one(verifier, lambda made: made.failures, 0))
    registry.add(manager + "TimeMs", read_one(verifier, lambda made: made.times_ms.read(clock.monotonic()), Distribution()))


def add_logs(
    registry: Registry,
    log_manager: Callable[[], LogManager | None],
    replicas: Callable[[], ReplicaManager | None],
    recovery: Callable[[], Mapping[str, LoadProgress]],
    clock: Clock,
) -> None:
    """Register LogManager and the cleaner."""

    def logs_to_recover() -> Iterator[Series]:
        for path, progress in list(recovery().items()):
            yield ("dir",), (path,), max(progress.total - progress.done - 1, 0)

    def segments_to_recover() -> Iterator[Series]:
        for path, progress in list(recovery().items()):
            yield ("dir", "threadNum"), (path, "0"), max(progress.segments_total - progress.segments_done, 0)

    _add_directories(registry, log_manager)
    manager = "kafka.log:type=LogManager,name=remaining"
    registry.add(manager + "LogsToRecover", logs_to_recover)
    registry.add(manager + "SegmentsToRecover", segments_to_recover)
    flushes = read_one(replicas, lambda made: made.flusher.times_ms.read(clock.monotonic()))
    registry.add("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", flushes)
    _add_cleaner(registry, log_manager, clock)


def _add_directories(registry: Registry, log_manager: Callable[[], LogManager | None]) -> None:
    """Register the states of log directories, and their partitions that the cleaner cannot clean."""

    def uncleanable(manager: LogManager, path: str) -> list[TopicPartition]:
        cleaner = manager.cleaner
        return [] if cleaner is None else list(cleaner.uncleanable_in(path))

    def uncleanable_bytes(manager: LogManager, directory: LogDirectory) -> int:
        logs = (manager.get_log(key) for key in uncleanable(manager, directory.path))
        return sum(log.size for log in logs if log is not None)

    def each(key: str, of: Callable[[LogManager, LogDirectory], int]) -> None:
        registry.add(key, lambda: _by_directory(log_manager(), of))

    def count(key: str, of: Callable[[LogDirectory], bool]) -> None:
        registry.add(key, read_one(log_manager, lambda manager: sum(map(of, manager.directories))))

    name = "kafka.log:type=LogManager,name="
    count(name + "OfflineLogDirectoryCount", lambda directory: not directory.online)
    count(name + "CordonedLogDirectoryCount", lambda directory: directory.cordoned)
    each(name + "LogDirectoryOffline", lambda _, directory: int(not directory.online))
    each(name + "LogDirectoryCordoned", lambda _, directory: int(directory.cordoned))
    cleaner = "kafka.log:type=LogCleanerManager,name=uncleanable-"
    each(cleaner + "partitions-count", lambda manager, directory: len(uncleanable(manager, directory.path)))
    each(cleaner + "bytes", uncleanable_bytes)


def _by_directory(manager: LogManager | None, of: Callable[[LogManager, LogDirectory], int]) -> list[Series]:
    return [] if manager is None else by("logDirectory", {each.path: of(manager, each) for each in manager.directories})


def _add_cleaner(registry: Registry, log_manager: Callable[[], LogManager | None], clock: Clock) -> None:
    """Register what the log cleaner measures of itself."""

    def cleaner() -> CleanerManager | None:
        manager = log_manager()
        made = None if manager is None else manager.cleaner
        return made if isinstance(made, CleanerManager) else None

    def idle_ms(made: CleanerManager) -> int:
        return 0 if made.looked_ms is None else max(clock.time_ms() - made.looked_ms, 0)

    values: dict[str, Callable[[CleanerManager], int]] = {
        "LogCleanerManager,name=max-dirty-percent": lambda made: int(made.dirtiest * 100),
        "LogCleanerManager,name=time-since-last-run-ms": idle_ms,
        "LogCleaner,name=cleaner-recopy-percent": lambda made: int(made.last_recopied * 100),
        "LogCleaner,name=max-buffer-utilization-percent": lambda made: int(made.last_utilization * 100),
        "LogCleaner,name=max-clean-time-secs": lambda made: int(made.last_seconds),
        "LogCleaner,name=DeadThreadCount": lambda made: 0,
    }
    for name, of in values.items():
        registry.add(f"kafka.log:type={name}", read_one(cleaner, of, 0))
