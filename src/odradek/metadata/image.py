"""State of the cluster at one offset of the metadata log (org.apache.kafka.image).

Images are immutable and share unchanged parts. A new image copies, one level deep, the maps that a delta touched, and the topics that the
delta names. The maps of an image must not be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from odradek.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
from odradek.metadata.registrations import BrokerRegistration, ControllerRegistration, PartitionRegistration
from odradek.security.acls import AccessControlEntry

if TYPE_CHECKING:
    from odradek.metadata.versioned import VersionedRecord

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32
"""Types of configured resources (org.apache.kafka.common.config.ConfigResource.Type)."""


class MetadataProvenance(NamedTuple):
    """End of an image: offset and epoch of its last record, and the time of that record's batch (Unix milliseconds, -1 unknown)."""

    last_contained_offset: int
    last_contained_epoch: int
    last_contained_log_time_ms: int


class FeaturesImage(NamedTuple):
    """Finalized feature levels. `metadata_version` has the value None before the first record; `levels` has the other features above 0."""

    metadata_version: int | None = None
    levels: Mapping[str, int] = {}

    @property
    def finalized(self) -> dict[str, int]:
        """Level of every finalized feature by name, including metadata.version, as ApiVersions returns them."""
        found = dict(self.levels)
        if self.metadata_version is not None:
            found[METADATA_VERSION] = self.metadata_version
        return found

    @property
    def elr_enabled(self) -> bool:
        return self.levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1


class ClusterImage(NamedTuple):
    """Registered nodes by id."""

    brokers: Mapping[int, BrokerRegistration] = {}
    controllers: Mapping[int, ControllerRegistration] = {}

    def broker_epoch(self, broker_id: int) -> int:
        """Return the epoch of a broker's registration, or -1 without one."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def alive_brokers(self) -> Iterator[BrokerRegistration]:
        """Yield the brokers that are not fenced, ordered by id."""
        for broker_id in sorted(self.brokers):
            if not self.brokers[broker_id].fenced:
                yield self.brokers[broker_id]

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced


class TopicImage(NamedTuple):
    """Topic with its partitions by number."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionRegistration]


class TopicsImage(NamedTuple):
    """Topics by name and by id."""

    by_name: Mapping[str, TopicImage] = {}
    by_id: Mapping[UUID, TopicImage] = {}

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        found = self.by_name.get(topic)
        return None if found is None else found.partitions.get(partition)

    def partition_by_id(self, topic_id: UUID, partition: int) -> PartitionRegistration | None:
        found = self.by_id.get(topic_id)
        return None if found is None else found.partitions.get(partition)

    def topic_name(self, topic_id: UUID) -> str | None:
        found = self.by_id.get(topic_id)
        return None if found is None else found.name

    def topic_id(self, topic: str) -> UUID | None:
        found = self.by_name.get(topic)
        return None if found is None else found.topic_id


class ConfigurationsImage(NamedTuple):
    """Configurations: (resource type, resource name) -> key -> text. The broker named "" has the dynamic defaults of all brokers."""

    resources: Mapping[tuple[int, str], Mapping[str, str]] = {}

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        return self.resources.get((resource_type, name), {})

    def topic(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic."""
        return self.of(RESOURCE_TOPIC, name)


class ProducerIdsImage(NamedTuple):
    """First producer id of the next block; -1 before the first allocation."""

    next_producer_id: int = -1


class ClientQuotasImage(NamedTuple):
    """Client quotas: entity -> quota -> value. An entity is sorted (type, name) pairs; the name None stands for the default entity."""

    entities: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]] = {}


class AclsImage(NamedTuple):
    """ACLs by id."""

    entries: Mapping[UUID, AccessControlEntry] = {}


class ScramCredential(NamedTuple):
    """Stored SCRAM credential of a user and mechanism, without the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramImage(NamedTuple):
    """SCRAM credentials by (mechanism id, user)."""

    credentials: Mapping[tuple[int, str], ScramCredential] = {}


class DelegationToken(NamedTuple):
    """Data of a delegation token. Times are Unix milliseconds."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


class DelegationTokensImage(NamedTuple):
    """Delegation tokens by id."""

    tokens: Mapping[str, DelegationToken] = {}


class MetadataImage(NamedTuple):
    """Image of the whole cluster. `EMPTY` is the state before the first record."""

    provenance: MetadataProvenance
    features: FeaturesImage
    cluster: ClusterImage
    topics: TopicsImage
    configs: ConfigurationsImage
    client_quotas: ClientQuotasImage
    producer_ids: ProducerIdsImage
    acls: AclsImage
    scram: ScramImage
    delegation_tokens: DelegationTokensImage

    @property
    def offset(self) -> int:
        return self.provenance.last_contained_offset

    @property
    def epoch(self) -> int:
        return self.provenance.last_contained_epoch

    def to_records(self) -> list[VersionedRecord]:
        """Return the records of a snapshot of this image, in Kafka's order."""
        from odradek.metadata.snapshot import image_records

        return list(image_records(self))

    def equal_state(self, other: MetadataImage) -> bool:
        """Return whether both images describe the same cluster, at the same offset or not."""
        return self[1:] == other[1:]


EMPTY = MetadataImage(
    MetadataProvenance(-1, -1, -1),
    FeaturesImage(),
    ClusterImage(),
    TopicsImage(),
    ConfigurationsImage(),
    ClientQuotasImage(),
    ProducerIdsImage(),
    AclsImage(),
    ScramImage(),
    DelegationTokensImage(),
)
