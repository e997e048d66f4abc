"""Registrations of partitions, brokers and controllers: immutable values built from records and written as records.

Source: org.apache.kafka.metadata.PartitionRegistration, BrokerRegistration, ControllerRegistration.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from odradek.metadata import features
from odradek.metadata.features import VersionRange
from odradek.protocol.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

NO_LEADER = -1
NO_LEADER_CHANGE = -2

RECOVERED = 0
RECOVERING = 1
"""States of a partition's leader (LeaderRecoveryState). RECOVERING lasts from an unclean election until the leader reports recovery."""

DIRECTORY_MIGRATING = UUID(int=0)
DIRECTORY_UNASSIGNED = UUID(int=1)
DIRECTORY_LOST = UUID(int=2)
"""Reserved directory ids (org.apache.kafka.common.DirectoryId)."""


class RegisteredEndpoint(NamedTuple):
    """Address of a node's listener. `security_protocol` is Kafka's id of the protocol."""

    name: str
    host: str
    port: int
    security_protocol: int


class PartitionRegistration(NamedTuple):
    """State of a partition. `directories` is parallel to `replicas`."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        replicas = tuple(record.replicas)
        return cls(
            replicas,
            _directories(tuple(record.directories), len(replicas)),
            tuple(record.isr),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            record.leader,
            record.leader_recovery_state,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Return the state after a change. The partition epoch always increases, and the leader epoch if the record names a leader."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        leader_changes = record.leader != NO_LEADER_CHANGE
        return PartitionRegistration(
            replicas,
            _directories(self.directories if record.directories is None else tuple(record.directories), len(replicas)),
            self.isr if record.isr is None else tuple(record.isr),
            self.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
            self.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
            record.leader if leader_changes else self.leader,
            self.leader_recovery_state if record.leader_recovery_state == -1 else record.leader_recovery_state,
            self.leader_epoch + 1 if leader_changes else self.leader_epoch,
            self.partition_epoch + 1,
            self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
        )

    def to_record(self, topic_id: UUID, partition_id: int, metadata_version: int) -> tuple[PartitionRecord, int]:
        """Return the record of this state, and the version to write it in."""
        record = PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if features.elr_supported(metadata_version):
            # These tagged fields are left out when empty.
            record.eligible_leader_replicas = list(self.elr) or None
            record.last_known_elr = list(self.last_known_elr) or None
        if features.directory_assignment_supported(metadata_version):
            record.directories = list(self.directories)
        return record, features.partition_record_version(metadata_version)

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory(self, broker_id: int) -> UUID:
        """Return the log directory of the broker's replica. Raises ValueError when the broker has no replica."""
        return self.directories[self.replicas.index(broker_id)]


def _directories(given: tuple[UUID, ...], replicas: int) -> tuple[UUID, ...]:
    """Return the directories of a record; DIRECTORY_MIGRATING for each replica of a record from before directory ids.

    Raises ValueError when the counts differ.
    """
    if not given:
        return (DIRECTORY_MIGRATING,) * replicas
    if len(given) != replicas:
        raise ValueError(f"a partition with {replicas} replicas names {len(given)} directories")
    return given


def _listeners(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[RegisteredEndpoint, ...]:
    return tuple(RegisteredEndpoint(each.name, each.host, each.port, each.security_protocol) for each in record.end_points)


def _supported_features(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[tuple[str, VersionRange], ...]:
    return tuple(sorted((each.name, VersionRange(each.min_supported_version, each.max_supported_version)) for each in record.features))


class BrokerRegistration(NamedTuple):
    """Broker as the controller knows it. `cordoned_directories` has the value None when the record's version lacks the field."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    listeners: tuple[RegisteredEndpoint, ...]
    supported_features: tuple[tuple[str, VersionRange], ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool = False
    directories: tuple[UUID, ...] = ()
    cordoned_directories: tuple[UUID, ...] | None = None

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            _listeners(record),
            _supported_features(record),
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            record.is_migrating_zk_broker,
            tuple(sorted(record.log_dirs, key=_signed)),
            None if cordoned is None else tuple(sorted(cordoned, key=_signed)),
        )

    def to_record(self, metadata_version: int) -> tuple[RegisterBrokerRecord, int]:
        """Return the record of this state, and the version to write it in."""
        record = RegisterBrokerRecord(
            broker_id=self.broker_id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners
            ],
            features=[
                RegisterBrokerRecord.BrokerFeature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in self.supported_features
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
        )
        if features.directory_assignment_supported(metadata_version):
            record.log_dirs = list(self.directories)
        if features.cordoned_log_dirs_supported(metadata_version) and self.cordoned_directories is not None:
            record.cordoned_log_dirs = list(self.cordoned_directories)
        return record, features.register_broker_record_version(metadata_version)

    def endpoint(self, listener: str) -> RegisteredEndpoint | None:
        """Return the broker's address on a listener, or None without a listener of that name."""
        for candidate in self.listeners:
            if candidate.name == listener:
                return candidate
        return None

    @property
    def has_uncordoned_directory(self) -> bool:
        """Return whether some log directory accepts new replicas."""
        cordoned = self.cordoned_directories or ()
        return not self.directories or any(directory not in cordoned for directory in self.directories)

    def has_online_directory(self, directory: UUID) -> bool:
        """Return whether a log directory of the broker is online (org.apache.kafka.common.DirectoryId.isOnline).

        A directory that is not assigned yet is online. When the broker has registered no directories, every id but DIRECTORY_LOST is
        online.
        """
        if directory in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED):
            return True
        return directory != DIRECTORY_LOST and (not self.directories or directory in self.directories)


def _signed(value: UUID) -> tuple[int, int]:
    """Return a sort key that orders ids as Java does, by two signed 64-bit halves."""
    high, low = value.int >> 64, value.int & 0xFFFF_FFFF_FFFF_FFFF
    return high - ((high >> 63) << 64), low - ((low >> 63) << 64)


class ControllerRegistration(NamedTuple):
    """Controller as the active controller knows it."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    listeners: tuple[RegisteredEndpoint, ...]
    supported_features: tuple[tuple[str, VersionRange], ...]

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            _listeners(record),
            _supported_features(record),
        )

    def to_record(self) -> tuple[RegisterControllerRecord, int]:
        """Return the record of this state, and the version to write it in."""
        record = RegisterControllerRecord(
            controller_id=self.controller_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                RegisterControllerRecord.ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners
            ],
            features=[
                RegisterControllerRecord.ControllerFeature(
                    name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum
                )
                for name, levels in self.supported_features
            ],
        )
        return record, 0
