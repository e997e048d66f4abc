"""Partition on one broker: its role, the leader's view of the replicas, and the resulting limits for clients.

Roles and their transitions are in roles.py: metadata makes a replica leader or follower; a failing log directory makes it offline; removal
ends it.

As a leader:

1. An append goes to the local log, if enough replicas are in sync for its acks.
2. The fetches of followers tell their log ends. The high watermark is the smallest log end among the leader, the maximal ISR and the
   replicas that are about to join the ISR. It never goes back, and it waits while the ISR is smaller than min.insync.replicas (KIP-966).
3. A follower that has reached the high watermark and the start of this leader epoch is proposed for the ISR. A follower that was not caught
   up for replica.lag.time.max.ms is proposed for removal. The controller decides (`isr`, `isr_proposals`).

No method here calls back into waiting requests: changes are noted in `DelayedOperations`, and the caller drains them.
(kafka.cluster.Partition)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.metrics.traffic import TopicTraffic
from odradek.replication.alter_partition import IsrAnswer
from odradek.replication.cluster_view import ClusterView, is_isr_eligible
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.following import append
from odradek.replication.isr import CommittedIsr, IsrState, PendingExpandIsr, PendingShrinkIsr
from odradek.replication.isr_proposals import IsrProposals
from odradek.replication.replica import Replica
from odradek.replication.roles import NO_EPOCH, NO_LEADER, TRANSITIONS, Registration, Role

if TYPE_CHECKING:
    from odradek.replication.fetch_params import FetchPartition
    from odradek.storage.append import AppendInfo, AppendOrigin
    from odradek.storage.log import Log
    from odradek.storage.producer_state import VerificationGuard

logger = logging.getLogger(__name__)

HIGH_WATERMARK_OFFSET = -1
"""Offset in DeleteRecords that means "up to the high watermark"."""


class Partition:
    """Hosted replica. Raises `KafkaError` with the code that a client receives."""

    __slots__ = (
        "_adding_replicas",
        "_clock",
        "_cluster",
        "_delayed",
        "_local_id",
        "_max_lag_s",
        "_proposals",
        "_replica_count",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "partition_epoch",
        "replica_ids",
        "replicas",
        "role",
        "topic_id",
        "topic_partition",
        "traffic",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        *,
        local_id: int,
        clock: Clock,
        cluster: ClusterView,
        proposals: IsrProposals,
        delayed: DelayedOperations,
        max_lag_ms: int,
        traffic: TopicTraffic | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.role = Role.NEW
        self.is_leader = False
        self.log: Log | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset: int | None = None
        """Start of the current leader epoch in the local log; None unless leader."""
        self.partition_epoch = NO_EPOCH
        self.isr: IsrState = CommittedIsr(frozenset())
        self.replica_ids: tuple[int, ...] = ()
        self.replicas: dict[int, Replica] = {}
        """Followers by broker id, when leader."""
        self._adding_replicas: frozenset[int] = frozenset()
        self._replica_count = 0
        """Replication factor, without replicas that a reassignment is adding."""
        self._local_id = local_id
        self._clock = clock
        self._cluster = cluster
        self._proposals = proposals
        self._delayed = delayed
        self._max_lag_s = max_lag_ms / 1000
        self.traffic = traffic or TopicTraffic()
        """Traffic counts, shared by all partitions of the topic."""

    # -- roles ----------------------------------------------------------------------------------------------------------------

    def _become(self, role: Role) -> None:
        if role not in TRANSITIONS[self.role]:
            raise RuntimeError(f"{self.topic_partition} cannot change from {self.role.value} to {role.value}")
        self.role = role
        self.is_leader = role is Role.LEADER

    def make_leader(self, registration: Registration, log: Log) -> bool:
        """Become leader, or take newer metadata as leader. Return whether this broker was not leader before.

        Metadata that is older than an AlterPartition response is ignored.
        """
        if registration.partition_epoch < self.partition_epoch:
            return False
        new_leader = not self.is_leader
        now_s = self._clock.monotonic()
        # Before any other change: followers' sessions pass what they know of the last fetches to the current replicas.
        self._note_change(True)
        self._become(Role.LEADER)
        self.log = log
        if registration.leader_epoch > self.leader_epoch + 1:
            # Other brokers may have led in between, and followers may have truncated since. (Kafka 4.3.1 keeps the old state when the
            # metadata skips several epochs.)
            self.replicas.clear()
        self._take_assignment(registration, leading=True)
        if registration.leader_epoch > self.leader_epoch:
            start_offset = log.log_end_offset
            # A follower whose log has a later epoch must learn where this epoch begins, to truncate rightly, even while the epoch has no
            # records.
            log.assign_epoch_start(registration.leader_epoch, start_offset)
            for replica in self.replicas.values():
                replica.begin_epoch(now_s=now_s, leader_end_offset=start_offset, in_sync=replica.broker_id in registration.isr)
            self.leader_epoch = registration.leader_epoch
            self.leader_epoch_start_offset = start_offset
        self.partition_epoch = registration.partition_epoch
        self.leader_id = self._local_id
        self._note_change(self._advance_high_watermark(log, now_s))
        return new_leader

    def make_follower(self, registration: Registration, log: Log) -> bool:
        """Become follower of the registration's leader, if there is one. Return whether the leader epoch is new, so that fetching must
        restart.
        """
        if registration.partition_epoch < self.partition_epoch:
            return False
        new_epoch = registration.leader_epoch > self.leader_epoch
        self._become(Role.FOLLOWER)
        self.log = log
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.leader_epoch_start_offset = None
        self.partition_epoch = registration.partition_epoch
        self._take_assignment(registration, leading=False)
        # Clients that waited for this broker as the leader must look elsewhere.
        self._note_change(True)
        return new_epoch

    def log_replaced(self) -> None:
        """Note that `log` is now the copy in another log directory."""
        self.raise_high_watermark()
        self._note_change(True)

    def mark_offline(self) -> None:
        """Become offline, because the log directory failed. Requests get KAFKA_STORAGE_ERROR until metadata places the replica again."""
        self._become(Role.OFFLINE)
        self._clear()

    def mark_deleted(self) -> None:
        """Become deleted: this broker no longer hosts the partition."""
        self._become(Role.DELETED)
        self._clear()

    def _clear(self) -> None:
        self.log = None
        self.leader_id = NO_LEADER
        self.leader_epoch_start_offset = None
        self.replicas.clear()
        self.replica_ids = ()
        self.isr = CommittedIsr(frozenset())
        self._note_change(True)

    def _take_assignment(self, registration: Registration, *, leading: bool) -> None:
        self.replica_ids = tuple(registration.replicas)
        self._adding_replicas = frozenset(registration.adding_replicas)
        self._replica_count = len(self.replica_ids) - len(self._adding_replicas.intersection(self.replica_ids))
        if not leading:
            self.replicas.clear()
            self.isr = CommittedIsr(frozenset())
            return
        followers = [replica for replica in self.replica_ids if replica != self._local_id]
        kept = self.replicas
        self.replicas = {replica: kept.get(replica) or Replica(replica) for replica in followers}
        if registration.partition_epoch > self.partition_epoch or not self.isr.in_flight:
            self.isr = CommittedIsr(frozenset(registration.isr))
        # Otherwise an earlier response of the controller had the same ISR, and a newer change is on its way to the controller.

    def is_adding_replica(self, broker_id: int) -> bool:
        """Return whether a reassignment is adding this replica."""
        return broker_id in self._adding_replicas

    def _note_change(self, changed: bool) -> None:
        if changed:
            self._delayed.partition_changed(self.topic_partition)

    # -- access ---------------------------------------------------------------------------------------------------------------

    def local_log(self, current_leader_epoch: int, *, leader_only: bool) -> Log:
        """Return the log for a request that names `current_leader_epoch` (-1: no fencing).

        Raises FENCED_LEADER_EPOCH when the request's epoch is old, UNKNOWN_LEADER_EPOCH when this broker's is. Raises
        NOT_LEADER_OR_FOLLOWER when this broker must not answer, and KAFKA_STORAGE_ERROR when its log directory is offline.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch and self.role is not Role.OFFLINE:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch of {self.topic_partition} is now {self.leader_epoch}")
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.topic_partition} is still in leader epoch {self.leader_epoch}")
        log = self.log
        if log is None or (leader_only and not self.is_leader):
            raise self._unavailable()
        return log

    def followed_log(self) -> Log:
        """Return the log of a follower. Raises NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR for a replica that does not follow."""
        log = self.log
        if log is None or self.role is not Role.FOLLOWER:
            raise self._unavailable()
        return log

    def led_log(self) -> Log:
        """Return the log of a leader. Raises NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR for a replica that does not lead."""
        log = self.log
        if log is None or not self.is_leader:
            raise self._unavailable()
        return log

    def _unavailable(self) -> KafkaError:
        if self.role is Role.OFFLINE:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic_partition} is offline")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self._local_id} does not lead {self.topic_partition}")

    def follower(self, broker_id: int, current_leader_epoch: int) -> Replica:
        """Return the state of a fetching follower. Raises an error that makes the follower retry when it is not a replica (yet)."""
        replica = self.replicas.get(broker_id)
        if replica is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"broker {broker_id} is not a replica of {self.topic_partition} in leader epoch {self.leader_epoch}")
        return replica

    # -- appending ------------------------------------------------------------------------------------------------------------

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, at most the number of replicas; during a reassignment, of the original replicas."""
        log = self.log
        return 0 if log is None else self._min_isr_of(log)

    def _min_isr_of(self, log: Log) -> int:
        wanted = log.config.min_insync_replicas
        return wanted if wanted <= self._replica_count else self._replica_count

    def _is_under_min_isr(self, log: Log) -> bool:
        in_sync = len(self.isr.isr)
        return in_sync < self._replica_count and in_sync < log.config.min_insync_replicas

    def append_as_leader(
        self,
        records: memoryview,
        required_acks: int,
        origin: AppendOrigin,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> tuple[AppendInfo, bool]:
        """Append one request's records; markers are of `transaction_version`. Return the log's result and whether the high watermark moved.

        Raises NOT_ENOUGH_REPLICAS (nothing is appended) when acks=-1 and the ISR is below min.insync.replicas. Raises
        NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, and the errors of the log's validation.
        """
        log = self.log
        if log is None or not self.is_leader:
            raise self._unavailable()
        under_min_isr = self._is_under_min_isr(log)
        if under_min_isr and required_acks == -1:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr.isr)} is insufficient to satisfy the min.isr requirement of {self.min_isr} "
                f"for partition {self.topic_partition}",
            )
        info = log.append_as_leader(
            records, self.leader_epoch, origin=origin, verification_guard=verification_guard, transaction_version=transaction_version
        )
        traffic = self.traffic
        traffic.bytes_in += info.size
        traffic.messages_in += info.record_count
        return info, not under_min_isr and self._follow_in_sync(log, None)

    def append_as_follower(self, records: memoryview, leader_epoch: int, *, high_watermark: int, log_start_offset: int) -> None:
        """Append records from the leader of `leader_epoch` at the local log end, and adopt its high watermark and log start."""
        log = self.followed_log()
        if leader_epoch != self.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"{self.topic_partition} follows in leader epoch {self.leader_epoch}, not {leader_epoch}")
        if len(records):
            append(log, records, leader_epoch)
            self.traffic.replication_bytes_in += len(records)
            if self._local_id in self._adding_replicas:
                self.traffic.reassignment_bytes_in += len(records)
        before = log.high_watermark
        if high_watermark > before:
            self._note_change(log.update_high_watermark(high_watermark) > before)
        if log_start_offset <= log.high_watermark:
            log.maybe_increment_log_start_offset(log_start_offset)

    # -- high watermark ---------------------------------------------------------------------------------------------------------

    def _advance_high_watermark(self, log: Log, now_s: float | None) -> bool:
        return not self._is_under_min_isr(log) and self._follow_in_sync(log, now_s)

    def _follow_in_sync(self, log: Log, now_s: float | None) -> bool:
        """Raise the high watermark to the smallest log end that counts. Return whether it moved."""
        isr = self.isr
        end_offset = log.log_end_offset
        high_watermark = end_offset
        if log.flush_due:
            # flush.messages makes a flush due: no record counts before it is durable here.
            high_watermark = log.recovery_point
        if self.replicas:
            if now_s is None:
                now_s = self._clock.monotonic()
            for replica in self.replicas.values():
                if replica.log_end_offset < high_watermark and (
                    replica.broker_id in isr.maximal_isr
                    or (
                        # About to join the ISR: the replica could never reach a high watermark that leaves it behind.
                        replica.is_caught_up(end_offset, now_s, self._max_lag_s)
                        and is_isr_eligible(self._cluster, replica.broker_id, replica.broker_epoch)
                        # A replica with a failed log directory does not join, and Kafka 4.3.1 waits replica.lag.time.max.ms for it.
                        and self._cluster.has_online_replica(self.topic_partition, replica.broker_id)
                    )
                ):
                    high_watermark = replica.log_end_offset
        if high_watermark <= log.high_watermark:
            return False
        log.update_high_watermark(high_watermark)
        return True

    def raise_high_watermark(self) -> None:
        """Raise the high watermark as far as the replicas allow, if this broker leads.

        Called after a flush, and when a broker or a log directory that may have held it back is gone.
        """
        if self.log is not None and self.is_leader:
            self._note_change(self._advance_high_watermark(self.log, None))

    def reached(self, required_offset: int) -> ErrorCode | None:
        """Return NONE when acks=-1 is satisfied up to `required_offset`, an error that ends the wait, or None while it is not satisfied."""
        log = self.log
        if log is None or not self.is_leader:
            return self._unavailable().code
        if log.high_watermark < required_offset:
            return None
        if len(self.isr.maximal_isr) < self._min_isr_of(log):
            # The ISR shrank after the append: the records are stored on fewer replicas than the topic demands.
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def record_follower_fetch(
        self, replica: Replica, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int
    ) -> None:
        """Record a fetch that was just read, and update the ISR and the high watermark.

        Raises NOT_LEADER_OR_FOLLOWER when the follower has registered with a newer broker epoch than it fetched with.
        """
        alive_epoch = self._cluster.alive_broker_epoch(replica.broker_id)
        if broker_epoch != -1 and alive_epoch is not None and alive_epoch > broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica.broker_id} fetched with epoch {broker_epoch} but registered as {alive_epoch}",
            )
        log = self.log
        if log is None:
            raise self._unavailable()
        now_s = self._clock.monotonic()
        before = replica.log_end_offset
        low_watermark = self.low_watermark() if len(self._delayed.delete_records) else -1
        replica.record_fetch(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            now_s=now_s,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
        )
        self._maybe_expand_isr(replica, log)
        changed = fetch_offset != before and self._advance_high_watermark(log, now_s)
        if len(self._delayed.delete_records) and self.low_watermark() > low_watermark:
            changed = True
        self._note_change(changed)

    def has_nothing_new_for(self, replica: Replica, fetched: FetchPartition) -> bool:
        """Return whether the follower of this fetch has the whole log, is in the ISR, and knows the high watermark and the log start."""
        log = self.log
        return (
            log is not None
            and fetched.fetch_offset == log.log_end_offset
            and fetched.high_watermark == log.high_watermark
            and fetched.local_log_start_offset == log.log_start_offset
            and replica.broker_id in self.isr.isr
        )

    def low_watermark(self) -> int:
        """Return the smallest log start offset of the live replicas, for which DeleteRecords waits. Leader only."""
        live = [each.log_start_offset for each in self.replicas.values() if self._cluster.alive_broker_epoch(each.broker_id) is not None]
        return min([self.led_log().log_start_offset, *live])

    # -- in-sync replicas -------------------------------------------------------------------------------------------------------

    def _maybe_expand_isr(self, replica: Replica, log: Log) -> None:
        isr = self.isr
        if not isinstance(isr, CommittedIsr) or replica.broker_id in isr.isr:
            return
        start = self.leader_epoch_start_offset
        # Not before the replica has the start of this epoch. Records between high watermark and log end may be committed, and the replica
        # could be elected without them.
        if start is None or replica.log_end_offset < log.high_watermark or replica.log_end_offset < start:
            return
        if is_isr_eligible(self._cluster, replica.broker_id, replica.broker_epoch):
            self._proposals.propose(self, PendingExpandIsr(isr, replica.broker_id))

    def out_of_sync_replicas(self) -> frozenset[int]:
        """Return the ISR members that were not caught up within replica.lag.time.max.ms; none while a change is in progress."""
        log = self.log
        isr = self.isr
        if log is None or not self.is_leader or isr.in_flight:
            return frozenset()
        now_s = self._clock.monotonic()
        end_offset = log.log_end_offset
        followers = {broker_id: self.replicas.get(broker_id) for broker_id in isr.isr if broker_id != self._local_id}
        return frozenset(
            broker_id
            for broker_id, replica in followers.items()
            if replica is None or not replica.is_caught_up(end_offset, now_s, self._max_lag_s)
        )

    def maybe_shrink_isr(self) -> bool:
        """Propose the removal of lagging followers. Called regularly; returns whether a removal was proposed."""
        lagging = self.out_of_sync_replicas()
        isr = self.isr
        if not lagging or not isinstance(isr, CommittedIsr):
            return False
        logger.info("%s: proposing to remove %s from the ISR %s", self.topic_partition, sorted(lagging), sorted(isr.isr))
        self._proposals.propose(self, PendingShrinkIsr(isr, lagging))
        return True

    def isr_changed(self, answer: IsrAnswer) -> bool:
        """Adopt the ISR that the controller has committed. Return False, changing nothing, when newer metadata is on its way."""
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return False
        logger.info("%s: ISR is now %s", self.topic_partition, sorted(answer.isr))
        self.isr = CommittedIsr(answer.isr)
        self.partition_epoch = answer.partition_epoch
        self.raise_high_watermark()
        self._note_change(True)
        return True

    # -- administration -----------------------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> tuple[int, int]:
        """Move the log start to `offset` (-1: the high watermark). Return the resolved offset and the current low watermark.

        Raises POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        log = self.led_log()
        if not log.config.delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"records of {self.topic_partition} can not be deleted due to the configured policy"
            )
        wanted = log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
        if wanted < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the offset {wanted} for {self.topic_partition} is not valid")
        log.maybe_increment_log_start_offset(wanted)
        return wanted, self.low_watermark()

    def __repr__(self) -> str:
        return f"Partition({self.topic_partition}, {self.role.value}, leader={self.leader_id}, epoch={self.leader_epoch}, isr={self.isr!r})"
