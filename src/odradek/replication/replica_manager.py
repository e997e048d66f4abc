"""Partitions of a broker, and the operations on them: append, fetch, look up offsets, delete records, follow the metadata.

Each operation has a module (`appender`, `reader`, `offsets`, `delete_records`, `metadata_changes`). This class owns those parts and does
the regular work: high-watermark checkpoints, ISR checks, failing directories, shutdown. (kafka.server.ReplicaManager)
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.keys.replication import (
    FETCH_MAX_BYTES,
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    REPLICA_LAG_TIME_MAX_MS,
    REPLICA_SELECTOR_CLASS,
)
from odradek.config.keys.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from odradek.metrics.traffic import Traffic
from odradek.replication.alter_partition import AlterPartitionManager, SendAlterPartition
from odradek.replication.appender import Appender
from odradek.replication.cluster_view import CurrentLeader, ImageClusterView, ImageHolder
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.delete_records import RecordsDeleter
from odradek.replication.fetch_session import FetchSessionCache
from odradek.replication.flushing import Flusher, RunJob
from odradek.replication.future_replicas import AssignDirectory, FutureReplicas, check_destination
from odradek.replication.high_watermarks import HighWatermarkCheckpoints
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.isr_proposals import IsrProposals
from odradek.replication.metadata_changes import MetadataChanges
from odradek.replication.offsets import OffsetLookup
from odradek.replication.partition import Partition
from odradek.replication.reader import Reader
from odradek.replication.roles import Role
from odradek.replication.selector import PreferredReplicas, selector_for
from odradek.replication.verification import NoCoordinator, TransactionVerifier, VerifiedAppender
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.names import LONGEST_NAME, future_directory_name

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.quotas.replication import ReplicationQuota
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Replica manager of a broker.

    `changes` is a metadata publisher. These parts serve the data handlers: `verified_appender` (for producers), `appender` (for appends
    that need no verification), `reader`, `offsets` and `fetch_sessions`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        rng: random.Random,
        log_manager: LogManager,
        metadata: ImageHolder,
        send_alter_partition: SendAlterPartition,
        broker_epoch: Callable[[], int],
        run_job: RunJob,
        verifier: TransactionVerifier | None = None,
        dynamic_config: DynamicBrokerConfig | None = None,
        assign: AssignDirectory | None = None,
    ) -> None:
        """Create the parts. `send_alter_partition` sends to the active controller, `run_job` runs blocking work in an executor.

        `dynamic_config` is `config` with the values that are set at run time. `assign` tells the controller the directory of a replica;
        without `assign`, the controller is not told.
        """
        self.clock = clock
        self._log_manager = log_manager
        self.local_id = config.node_id
        self.config = config
        self.dynamic_config = dynamic_config or DynamicBrokerConfig(config)
        self.fetch_max_bytes = config[FETCH_MAX_BYTES]
        self.max_lag_ms = config[REPLICA_LAG_TIME_MAX_MS]
        self.cluster = ImageClusterView(metadata)
        self.delayed = DelayedOperations(clock)
        self.traffic = Traffic()
        self.partitions = HostedPartitions(self.cluster)
        self.checkpoints = HighWatermarkCheckpoints(disk, log_manager.new_lock())
        self.alter_partition = AlterPartitionManager(send_alter_partition, clock, self.local_id, broker_epoch)
        self._proposals = IsrProposals(self.alter_partition, clock, self.local_id, broker_epoch, self.delayed.drain)
        self.run_job = run_job
        self._checkpointing = False
        self.flusher = Flusher(disk, run_job, clock)
        self.appender = Appender(self.partitions, self.delayed, self.flusher, self.traffic)
        verify = config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        self.verified_appender = VerifiedAppender(self.partitions, self.appender, verifier or NoCoordinator(), verify=verify)
        select = selector_for((config[REPLICA_SELECTOR_CLASS] or "").strip())
        preferred = None if select is None else PreferredReplicas(select, self.cluster, clock, self.local_id)
        self.reader = Reader(self.partitions, self.delayed, preferred, self.traffic)
        self.leader_quota: ReplicationQuota | None = None
        """Quota of leader.replication.throttled.rate; None while no replica is throttled."""
        self.offsets = OffsetLookup(self.partitions)
        self.deleter = RecordsDeleter(self.partitions, self.delayed, self._checkpoint_log_starts)
        self.assign = assign
        self.future_replicas = FutureReplicas(
            log_manager,
            clock=clock,
            disk=disk,
            run_job=run_job,
            flusher=self.flusher,
            config=self.dynamic_config,
            assign=assign,
            on_moved=self._moved,
        )
        self.fetch_sessions = FetchSessionCache(clock, rng, config[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], self.delayed.followers)
        log_manager.on_shortened = lambda log: self.delayed.followers.changed(log.topic_partition)
        self.changes = MetadataChanges(self, log_manager)

    # -- partitions -------------------------------------------------------------------------------------------------------------

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return the hosted partition. Raises `KafkaError`, see `HostedPartitions.find`."""
        return self.partitions.find(topic_partition)

    def current_leader(self, topic_partition: TopicPartition, listener: str) -> CurrentLeader:
        """Return the leader that clients on `listener` should ask instead."""
        partition = self.partitions.by_name.get(topic_partition)
        return self.cluster.current_leader(
            topic_partition, listener, None if partition is None else (partition.leader_id, partition.leader_epoch)
        )

    def new_partition(self, topic_partition: TopicPartition, topic_id: UUID) -> Partition:
        """Add a partition without a role to the table."""
        partition = Partition(
            topic_partition,
            topic_id,
            local_id=self.local_id,
            clock=self.clock,
            cluster=self.cluster,
            proposals=self._proposals,
            delayed=self.delayed,
            max_lag_ms=self.max_lag_ms,
            traffic=self.traffic.add_partition(topic_partition.topic),
        )
        self.partitions.by_name[topic_partition] = partition
        return partition

    def online_partitions(self) -> Iterator[Partition]:
        """Return the partitions that have a log."""
        return (partition for partition in self.partitions.by_name.values() if partition.log is not None)

    def leader_partitions(self) -> Iterator[Partition]:
        """Return the partitions that this broker leads."""
        return (partition for partition in self.partitions.by_name.values() if partition.is_leader)

    def verify_transactions(self, verify: bool) -> None:
        """Set whether appends that begin a transaction in a partition ask the coordinator first (KIP-890)."""
        self.verified_appender.verify = verify

    # -- regular work -----------------------------------------------------------------------------------------------------------

    def shrink_isrs(self) -> None:
        """Propose the removal of lagging followers; called every replica.lag.time.max.ms / 2."""
        for partition in list(self.leader_partitions()):
            partition.maybe_shrink_isr()

    def checkpoint_high_watermarks(self) -> Deferred[None] | None:
        """Write high watermarks in the executor; called every replica.high.watermark.checkpoint.interval.ms.

        Return None when no high watermark has changed or the last write is not done.
        """
        collected = self.checkpoints.collect([partition.log for partition in self.online_partitions() if partition.log is not None])
        if not collected or self._checkpointing:
            return None
        self._checkpointing = True
        failed: list[tuple[str, OSError]] = []

        def finished(_: Deferred[None]) -> None:
            self._checkpointing = False
            self._report_failed(failed)

        done = self.run_job(lambda: failed.extend(self.checkpoints.write(collected)))
        done.add_callback(finished)
        return done

    def _checkpoint_log_starts(self) -> Deferred[None] | None:
        """Write the log start offsets in the executor; return None when the files are up to date."""
        writes = self._log_manager.begin_log_start_offsets()
        if not writes:
            return None
        failed: list[tuple[str, OSError]] = []
        done = self.run_job(lambda: failed.extend(write_checkpoints(writes)))
        done.add_callback(lambda _: self._log_manager.finish_checkpoints(failed))
        return done

    def _report_failed(self, failed: list[tuple[str, OSError]]) -> None:
        for directory, error in failed:
            self._log_manager.directory_failed(directory, error)

    def alter_log_dir(self, topic_partition: TopicPartition, path: str) -> None:
        """Move the replica to the log directory at `path` (`FutureReplicas.alter`), and prefer the directory for a later replica.

        Raises INVALID_TOPIC_EXCEPTION when the directory name would be too long, and the errors of `check_destination`. Raises
        KAFKA_STORAGE_ERROR when the replica is offline, and NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION when this broker does not
        host it.
        """
        if len(future_directory_name(topic_partition, ZERO_UUID)) > LONGEST_NAME:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        check_destination(self._log_manager, topic_partition, path)
        partition = self.partitions.by_name.get(topic_partition)
        if partition is not None and partition.role is Role.OFFLINE:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic_partition} is offline")
        self._log_manager.placement.prefer(topic_partition, path)
        self.future_replicas.alter(self.partition(topic_partition), path)

    def _moved(self, partition: Partition) -> None:
        """Let waiting requests look at the partition's new log."""
        partition.log_replaced()
        self.checkpoint_high_watermarks()
        self.delayed.drain()

    def directory_failed(self, directory: str) -> None:
        """Take the partitions in the directory offline (`LogManager.on_directory_failure`); they answer KAFKA_STORAGE_ERROR from now on.

        An append or a read may make this call, so waiting requests are answered in the next loop iteration.
        """
        lost = [
            partition for partition in self.online_partitions() if partition.log is not None and partition.log.parent_directory == directory
        ]
        self.future_replicas.directory_failed(directory)
        self.changes.fetchers.stop([partition.topic_partition for partition in lost])
        for partition in lost:
            partition.mark_offline()
        logger.error("%d partition(s) are offline with the log directory %s", len(lost), directory)
        self.clock.call_later(0, self.delayed.drain)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Remove a partition from the table, and return it. Requests that wait for it are answered."""
        self.future_replicas.stop(topic_partition, gone=True)
        partition = self.partitions.by_name.pop(topic_partition, None)
        if partition is not None:
            self.traffic.remove_partition(topic_partition.topic)
        if partition is not None and partition.role is not Role.DELETED:
            partition.mark_deleted()
        return partition

    def close(self) -> None:
        """Answer the waiting requests and write the high watermarks. The log manager closes the logs afterwards."""
        self.changes.close()
        self.future_replicas.close()
        self.alter_partition.close()
        self.delayed.close()
        logs = [partition.log for partition in self.online_partitions() if partition.log is not None]
        self._report_failed(self.checkpoints.write(self.checkpoints.collect(logs), last=True))
