"""Builder of the record that takes a partition to its target state (org.apache.kafka.controller.PartitionChangeBuilder).

1. A reassignment whose target replicas are all in sync is finished: the old replicas are removed.
2. With eligible leader replicas (KIP-966), a replica that leaves an ISR below min.insync.replicas stays eligible, unless it stopped
   uncleanly.
3. A leader is elected when the current one is not acceptable or, on request, in favour of the preferred replica. The leader comes from the
   ISR, else from the eligible replicas. Without these, the last known leader is elected or, where the topic allows it, any acceptable
   replica.
4. The record contains only differences. Without a difference no record is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from uuid import UUID

from odradek.metadata import features
from odradek.metadata.registrations import NO_LEADER, NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionRegistration
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import PartitionChangeRecord


class Election(Enum):
    """Kind of election."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class PartitionChange:
    """Change of one partition: set the targets, then call `build`. Targets that are not set keep their value.

    `acceptable(broker_id, directory)` returns whether a broker may lead with its replica in that log directory. For a replica that does not
    exist yet `directory` has the value None. The target directories are tested, not the former ones, because a replica may have moved to a
    working directory.
    """

    def __init__(
        self,
        partition: PartitionRegistration,
        topic_id: UUID,
        partition_id: int,
        *,
        acceptable: Callable[[int, UUID | None], bool],
        metadata_version: int,
        min_isr: int,
        elr_enabled: bool,
        default_directory: Callable[[int], UUID],
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.partition_id = partition_id
        self.acceptable = acceptable
        self.metadata_version = metadata_version
        self.min_isr = min_isr
        self.elr_enabled = elr_enabled
        self.default_directory = default_directory
        self.election = Election.ONLINE
        self.isr = list(partition.isr)
        self.replicas = list(partition.replicas)
        self.removing = list(partition.removing_replicas)
        self.adding = list(partition.adding_replicas)
        self.elr = list(partition.elr)
        self.recovery_state = partition.leader_recovery_state
        self.unclean_shutdown: tuple[int, ...] = ()
        self.directories = dict(zip(partition.replicas, partition.directories, strict=True))

    def build(self) -> VersionedRecord | None:
        """Return the record, or None when nothing changes."""
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id)
        self._finish_reassignment()
        self._eligible_replicas()
        self._elect(record)
        if record.leader == NO_LEADER_CHANGE and not set(self.partition.replicas) <= set(self.replicas):
            record.leader = self.partition.leader  # Bumps the leader epoch.
        self._write_eligible_replicas(record)
        if record.isr is None and (self.isr or self.elr_enabled) and self.isr != list(self.partition.isr):
            record.isr = self.isr
        self._bump_epoch_on_shrink(record)
        self._write_last_known_leader(record)
        self._write_assignment(record)
        if self.recovery_state != self.partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        if self._is_no_change(record):
            return None
        return VersionedRecord(record, features.partition_change_record_version(self.metadata_version))

    # -- reassignment -----------------------------------------------------------------------------------------------------------------

    def _finish_reassignment(self) -> None:
        if not self.adding and not self.removing:
            return
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        isr = [replica for replica in self.isr if replica not in self.removing]
        if not replicas or not isr or not set(self.adding) <= set(isr):
            return
        self.replicas, self.isr = replicas, isr
        self.removing, self.adding = [], []

    # -- eligible leader replicas -----------------------------------------------------------------------------------------------------

    def _eligible_replicas(self) -> None:
        if not self.elr_enabled:
            return
        if len(self.isr) >= self.min_isr:
            self.elr = []
            return
        candidates = dict.fromkeys([*self.elr, *self.partition.isr])
        self.elr = sorted(replica for replica in candidates if replica not in self.isr and replica not in self.unclean_shutdown)

    def _write_eligible_replicas(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self.elr_enabled:
            self.elr = []  # An unclean election, or the feature is off.
        if self.elr != list(self.partition.elr):
            record.eligible_leader_replicas = self.elr

    def _write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self.elr_enabled:
            return
        before = self.partition
        if record.leader == NO_LEADER and before.leader != NO_LEADER and not before.last_known_elr:
            record.last_known_elr = [before.leader]  # The partition has just lost its last leader.
        elif record.leader >= 0 and before.last_known_elr:
            record.last_known_elr = []

    # -- election ---------------------------------------------------------------------------------------------------------------------

    def _valid(self, replica: int) -> bool:
        in_sync = replica in self.isr or (not self.isr and replica in self.elr)
        return in_sync and self._acceptable(replica)

    def _acceptable(self, replica: int) -> bool:
        return self.acceptable(replica, self.directories.get(replica))

    def _candidate(self) -> tuple[int, bool]:
        """Return the new leader and whether its election is unclean."""
        if self.election is Election.PREFERRED and self._valid(self.replicas[0]):
            return self.replicas[0], False
        if self._valid(self.partition.leader):
            return self.partition.leader, False
        for replica in self.replicas:
            if self._valid(replica):
                return replica, False
        if self._last_known_leader_may_lead():
            return self.partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _last_known_leader_may_lead(self) -> bool:
        if not self.elr_enabled or self.elr or self.isr or len(self.partition.last_known_elr) != 1:
            return False
        return self._acceptable(self.partition.last_known_elr[0])

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, unclean = self._candidate()
        if leader == self.partition.leader:
            return
        if leader in self.elr:
            self.isr = [leader]
            self.elr = [replica for replica in self.elr if replica != leader]
        record.leader = leader
        if unclean:
            # Records may be lost: from now on only the new leader's log counts.
            record.isr = [leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _bump_epoch_on_shrink(self, record: PartitionChangeRecord) -> None:
        if not features.leader_epoch_bump_on_isr_shrink(self.metadata_version) or record.leader != NO_LEADER_CHANGE or record.isr is None:
            return
        if not _contains_all(record.isr, self.partition.isr):
            record.leader = self.partition.leader

    # -- assignment -------------------------------------------------------------------------------------------------------------------

    def _write_assignment(self, record: PartitionChangeRecord) -> None:
        if self.replicas:
            if features.directory_assignment_supported(self.metadata_version):
                directories = [self.directories.get(replica) or self.default_directory(replica) for replica in self.replicas]
                if directories != list(self.partition.directories):
                    record.directories = directories
            if self.replicas != list(self.partition.replicas):
                record.replicas = self.replicas
        if self.removing != list(self.partition.removing_replicas):
            record.removing_replicas = self.removing
        if self.adding != list(self.partition.adding_replicas):
            record.adding_replicas = self.adding

    @staticmethod
    def _is_no_change(record: PartitionChangeRecord) -> bool:
        lists = (
            record.isr,
            record.replicas,
            record.removing_replicas,
            record.adding_replicas,
            record.directories,
            record.eligible_leader_replicas,
            record.last_known_elr,
        )
        return record.leader == NO_LEADER_CHANGE and record.leader_recovery_state == -1 and all(part is None for part in lists)


def _contains_all(whole: Iterable[int], parts: Iterable[int]) -> bool:
    return set(parts) <= set(whole)


__all__ = ["RECOVERED", "Election", "PartitionChange"]
