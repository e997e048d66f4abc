"""Records of the metadata log `__cluster_metadata` (KIP-631); API_KEY is the record type."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uint16,
    Uuid,
    Versions,
    field,
)


class RegisterBrokerRecord(Message):
    """Registration of a broker with epoch, endpoints, features, rack and directories."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    is_migrating_zk_broker: bool = field(Bool, "2+")
    incarnation_id: UUID = field(Uuid, "0+")
    broker_epoch: int = field(Int64, "0+")
    end_points: list[BrokerEndpoint] = field(Array("BrokerEndpoint"), "0+")
    features: list[BrokerFeature] = field(Array("BrokerFeature"), "0+")
    rack: str | None = field(String, "0+", nullable="0+")
    fenced: bool = field(Bool, "0+", default=True)
    in_controlled_shutdown: bool = field(Bool, "1+")
    log_dirs: list[UUID] = field(Array(Uuid), "3+", tag=0)
    cordoned_log_dirs: list[UUID] | None = field(Array(Uuid), "4+", nullable="4+", tag=1, default=None)

    class BrokerEndpoint(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")
        security_protocol: int = field(Int16, "0+")

    class BrokerFeature(Struct):
        name: str = field(String, "0+")
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class UnregisterBrokerRecord(Message):
    """Removal of a broker."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+")


class TopicRecord(Message):
    """Topic with name and id."""

    API_KEY = 2
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    name: str = field(String, "0+")
    topic_id: UUID = field(Uuid, "0+")


class PartitionRecord(Message):
    """Partition with replicas, ISR, leader and epochs."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    partition_id: int = field(Int32, "0+", default=-1)
    topic_id: UUID = field(Uuid, "0+")
    replicas: list[int] = field(Array(Int32), "0+")
    isr: list[int] = field(Array(Int32), "0+")
    removing_replicas: list[int] = field(Array(Int32), "0+")
    adding_replicas: list[int] = field(Array(Int32), "0+")
    leader: int = field(Int32, "0+", default=-1)
    leader_recovery_state: int = field(Int8, "0+", tag=0)
    leader_epoch: int = field(Int32, "0+", default=-1)
    partition_epoch: int = field(Int32, "0+", default=-1)
    directories: list[UUID] = field(Array(Uuid), "1+")
    eligible_leader_replicas: list[int] | None = field(Array(Int32), "2+", nullable="2+", tag=1, default=None)
    last_known_elr: list[int] | None = field(Array(Int32), "2+", nullable="2+", tag=2, default=None)


class ConfigRecord(Message):
    """Configuration value of a resource, set or removed."""

    API_KEY = 4
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    resource_type: int = field(Int8, "0+")
    resource_name: str = field(String, "0+")
    name: str = field(String, "0+")
    value: str | None = field(String, "0+", nullable="0+")


class PartitionChangeRecord(Message):
    """Change of leader, ISR, replicas, directories or eligible leaders of a partition."""

    API_KEY = 5
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    partition_id: int = field(Int32, "0+", default=-1)
    topic_id: UUID = field(Uuid, "0+")
    isr: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=0, default=None)
    leader: int = field(Int32, "0+", tag=1, default=-2)
    replicas: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=4, default=None)
    leader_recovery_state: int = field(Int8, "0+", tag=5, default=-1)
    directories: list[UUID] | None = field(Array(Uuid), "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = field(Array(Int32), "2+", nullable="2+", tag=6, default=None)
    last_known_elr: list[int] | None = field(Array(Int32), "2+", nullable="2+", tag=7, default=None)


class FenceBrokerRecord(Message):
    """Fencing of a broker."""

    API_KEY = 7
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    id: int = field(Int32, "0+")
    epoch: int = field(Int64, "0+")


class UnfenceBrokerRecord(Message):
    """Unfencing of a broker."""

    API_KEY = 8
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    id: int = field(Int32, "0+")
    epoch: int = field(Int64, "0+")


class RemoveTopicRecord(Message):
    """Removal of a topic, by id."""

    API_KEY = 9
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topic_id: UUID = field(Uuid, "0+")


class DelegationTokenRecord(Message):
    """Delegation token, without its secret (KIP-900)."""

    API_KEY = 10
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    owner: str = field(String, "0+")
    requester: str = field(String, "0+")
    renewers: list[str] = field(Array(String), "0+")
    issue_timestamp: int = field(Int64, "0+")
    max_timestamp: int = field(Int64, "0+")
    expiration_timestamp: int = field(Int64, "0+")
    token_id: str = field(String, "0+")


class UserScramCredentialRecord(Message):
    """SCRAM credential of a user (KIP-900)."""

    API_KEY = 11
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    name: str = field(String, "0+")
    mechanism: int = field(Int8, "0+")
    salt: bytes = field(Bytes, "0+")
    stored_key: bytes = field(Bytes, "0+")
    server_key: bytes = field(Bytes, "0+")
    iterations: int = field(Int32, "0+")


class FeatureLevelRecord(Message):
    """Finalized level of a feature (KIP-584)."""

    API_KEY = 12
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    name: str = field(String, "0+")
    feature_level: int = field(Int16, "0+")


class ClientQuotaRecord(Message):
    """Quota of a client entity, set or removed (KIP-546)."""

    API_KEY = 14
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    entity: list[EntityData] = field(Array("EntityData"), "0+")
    key: str = field(String, "0+")
    value: float = field(Float64, "0+")
    remove: bool = field(Bool, "0+")

    class EntityData(Struct):
        entity_type: str = field(String, "0+")
        entity_name: str | None = field(String, "0+", nullable="0+")


class ProducerIdsRecord(Message):
    """Next producer id to allocate, and the broker that got the last block (KIP-730)."""

    API_KEY = 15
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)
    next_producer_id: int = field(Int64, "0+")


class BrokerRegistrationChangeRecord(Message):
    """Change of fencing, controlled shutdown or directories of a broker (KIP-841, KIP-858)."""

    API_KEY = 17
    VALID_VERSIONS = Versions(0, 3)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+")
    fenced: int = field(Int8, "0+", tag=0)
    in_controlled_shutdown: int = field(Int8, "1+", tag=1)
    log_dirs: list[UUID] = field(Array(Uuid), "2+", tag=2)
    cordoned_log_dirs: list[UUID] | None = field(Array(Uuid), "3+", nullable="3+", tag=3, default=None)


class AccessControlEntryRecord(Message):
    """ACL with its id."""

    API_KEY = 18
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    id: UUID = field(Uuid, "0+")
    resource_type: int = field(Int8, "0+")
    resource_name: str = field(String, "0+")
    pattern_type: int = field(Int8, "0+")
    principal: str = field(String, "0+")
    host: str = field(String, "0+")
    operation: int = field(Int8, "0+")
    permission_type: int = field(Int8, "0+")


class RemoveAccessControlEntryRecord(Message):
    """Removal of an ACL, by id."""

    API_KEY = 19
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    id: UUID = field(Uuid, "0+")


class NoOpRecord(Message):
    """Record without content, which keeps the metadata log moving (KIP-835)."""

    API_KEY = 20
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)


class ZkMigrationStateRecord(Message):
    """State of the migration from ZooKeeper (KIP-866)."""

    API_KEY = 21
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    zk_migration_state: int = field(Int8, "0+")


class RemoveUserScramCredentialRecord(Message):
    """Removal of a SCRAM credential (KIP-900)."""

    API_KEY = 22
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    name: str = field(String, "0+")
    mechanism: int = field(Int8, "0+")


class BeginTransactionRecord(Message):
    """Begin of a transaction: the following records take effect with EndTransactionRecord (KIP-868)."""

    API_KEY = 23
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    name: str | None = field(String, "0+", nullable="0+", tag=0, default=None)


class EndTransactionRecord(Message):
    """End of a transaction: the records since BeginTransactionRecord take effect (KIP-868)."""

    API_KEY = 24
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)


class AbortTransactionRecord(Message):
    """Abort of a transaction: the records since BeginTransactionRecord have no effect (KIP-868)."""

    API_KEY = 25
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    reason: str | None = field(String, "0+", nullable="0+", tag=0, default=None)


class RemoveDelegationTokenRecord(Message):
    """Removal of a delegation token (KIP-900)."""

    API_KEY = 26
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    token_id: str = field(String, "0+")


class RegisterControllerRecord(Message):
    """Registration of a controller with endpoints and features (KIP-919)."""

    API_KEY = 27
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    controller_id: int = field(Int32, "0+")
    incarnation_id: UUID = field(Uuid, "0+")
    zk_migration_ready: bool = field(Bool, "0+")
    end_points: list[ControllerEndpoint] = field(Array("ControllerEndpoint"), "0+")
    features: list[ControllerFeature] = field(Array("ControllerFeature"), "0+")

    class ControllerEndpoint(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")
        security_protocol: int = field(Int16, "0+")

    class ControllerFeature(Struct):
        name: str = field(String, "0+")
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class ClearElrRecord(Message):
    """Removal of eligible leader replicas, of one topic or of all (KIP-966)."""

    API_KEY = 28
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    topic_name: str = field(String, "0+")
