"""Changes between two images: records applied to an image give the next one (org.apache.kafka.image.MetadataDelta).

    delta = MetadataDelta(image)
    for record in records: delta.replay(record)
    image = delta.apply(MetadataProvenance(offset, epoch, time_ms))

To load a snapshot, replay its records into a delta of the current image, then call `finish_snapshot`, which removes everything that the
snapshot did not contain. The sub-deltas (`topics`, `brokers`, ...) tell publishers what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar
from uuid import UUID

from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.image import (
    AclsImage,
    ClientQuotasImage,
    ClusterImage,
    ConfigurationsImage,
    DelegationToken,
    DelegationTokensImage,
    FeaturesImage,
    MetadataImage,
    MetadataProvenance,
    ProducerIdsImage,
    ScramCredential,
    ScramImage,
)
from odradek.metadata.registrations import BrokerRegistration, ControllerRegistration
from odradek.metadata.topics_delta import TopicsDelta
from odradek.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from odradek.security.acls import AccessControlEntry

K = TypeVar("K")
V = TypeVar("V")

Entity = tuple[tuple[str, str | None], ...]


class MetadataDelta:
    """Changes since `image`. In the maps of changes None stands for "removed"."""

    __slots__ = (
        "acls",
        "brokers",
        "config_changes",
        "controllers",
        "features",
        "image",
        "metadata_version",
        "next_producer_id",
        "quota_changes",
        "scram",
        "tokens",
        "topics",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.metadata_version: int | None = None
        self.features: dict[str, int | None] = {}
        self.brokers: dict[int, BrokerRegistration | None] = {}
        self.controllers: dict[int, ControllerRegistration | None] = {}
        self.topics = TopicsDelta(image.topics)
        self.config_changes: dict[tuple[int, str], dict[str, str | None]] = {}
        self.quota_changes: dict[Entity, dict[str, float | None]] = {}
        self.next_producer_id: int | None = None
        self.acls: dict[UUID, AccessControlEntry | None] = {}
        self.scram: dict[tuple[int, str], ScramCredential | None] = {}
        self.tokens: dict[str, DelegationToken | None] = {}

    # -- replay -----------------------------------------------------------------------------------------------------------------------

    def replay(self, record: object) -> None:
        """Apply one record. Raises ValueError for one that contradicts the state or is not a metadata record."""
        replay = self._REPLAY.get(type(record))
        if replay is None:
            raise ValueError(f"{type(record).__name__} does not belong in the state of the cluster")
        replay(self, record)

    def _feature(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION:
            self.metadata_version = record.feature_level
        else:
            self.features[record.name] = record.feature_level or None

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = None

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.brokers[broker_id] if broker_id in self.brokers else self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "no registration" if broker is None else f"epoch {broker.epoch}"
            raise ValueError(f"a record names broker {broker_id} in epoch {epoch}, but it has {known}")
        return broker

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(fenced=False)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        before = self._broker(record.broker_id, record.broker_epoch)
        after = change_broker(before, record)
        if after != before:
            self.brokers[record.broker_id] = after

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def _topic(self, record: TopicRecord) -> None:
        self.topics.create(record)

    def _partition(self, record: PartitionRecord) -> None:
        self.topics.add_partition(record)

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        self.topics.change_partition(record)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        self.topics.clear_elr(record)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        from odradek.metadata.image import RESOURCE_TOPIC

        name = self.topics.remove(record)
        resource = (RESOURCE_TOPIC, name)
        self.config_changes[resource] = dict.fromkeys(
            {**self.image.configs.resources.get(resource, {}), **self.config_changes.get(resource, {})}
        )

    def _config(self, record: ConfigRecord) -> None:
        self.config_changes.setdefault((record.resource_type, record.resource_name), {})[record.name] = record.value

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity(record)
        self.quota_changes.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = acl_entry(record)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.acls[record.id] = None

    def _scram(self, record: UserScramCredentialRecord) -> None:
        credential = ScramCredential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        self.scram[(record.mechanism, record.name)] = credential

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram[(record.mechanism, record.name)] = None

    def _token(self, record: DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.tokens[record.token_id] = None

    def _nothing(self, _record: object) -> None:
        """Ignore the record: NoOpRecord only moves the offset, and ZooKeeper migration has no meaning since Kafka 4.0."""

    _REPLAY: ClassVar[dict[type, Callable[..., None]]] = {
        FeatureLevelRecord: _feature,
        RegisterBrokerRecord: _register_broker,
        UnregisterBrokerRecord: _unregister_broker,
        FenceBrokerRecord: _fence_broker,
        UnfenceBrokerRecord: _unfence_broker,
        BrokerRegistrationChangeRecord: _change_broker,
        RegisterControllerRecord: _register_controller,
        TopicRecord: _topic,
        PartitionRecord: _partition,
        PartitionChangeRecord: _partition_change,
        ClearElrRecord: _clear_elr,
        RemoveTopicRecord: _remove_topic,
        ConfigRecord: _config,
        ClientQuotaRecord: _quota,
        ProducerIdsRecord: _producer_ids,
        AccessControlEntryRecord: _acl,
        RemoveAccessControlEntryRecord: _remove_acl,
        UserScramCredentialRecord: _scram,
        RemoveUserScramCredentialRecord: _remove_scram,
        DelegationTokenRecord: _token,
        RemoveDelegationTokenRecord: _remove_token,
        NoOpRecord: _nothing,
        ZkMigrationStateRecord: _nothing,
    }

    # -- the next image ---------------------------------------------------------------------------------------------------------------

    def finish_snapshot(self) -> None:
        """Mark everything that the replayed snapshot did not contain as removed."""
        image = self.image
        _remove_unnamed(image.features.levels, self.features)
        _remove_unnamed(image.cluster.brokers, self.brokers)
        _remove_unnamed(image.cluster.controllers, self.controllers)
        self.topics.finish_snapshot()
        for resource, values in image.configs.resources.items():
            _remove_unnamed(values, self.config_changes.setdefault(resource, {}))
        for entity, quotas in image.client_quotas.entities.items():
            _remove_unnamed(quotas, self.quota_changes.setdefault(entity, {}))
        if self.next_producer_id is None:
            self.next_producer_id = -1
        _remove_unnamed(image.acls.entries, self.acls)
        _remove_unnamed(image.scram.credentials, self.scram)
        _remove_unnamed(image.delegation_tokens.tokens, self.tokens)

    @property
    def topics_changed(self) -> bool:
        return bool(self.topics.changed_topics or self.topics.deleted_topic_ids)

    def apply(self, provenance: MetadataProvenance) -> MetadataImage:
        """Return the next image, which shares the parts without changes with `image`."""
        image = self.image
        features = image.features
        if self.features or self.metadata_version is not None:
            level = features.metadata_version if self.metadata_version is None else self.metadata_version
            features = FeaturesImage(level, _merged(features.levels, self.features))
        cluster = image.cluster
        if self.brokers or self.controllers:
            cluster = ClusterImage(_merged(cluster.brokers, self.brokers), _merged(cluster.controllers, self.controllers))
        configs = image.configs
        if self.config_changes:
            configs = ConfigurationsImage(_merged_tables(configs.resources, self.config_changes))
        quotas = image.client_quotas
        if self.quota_changes:
            quotas = ClientQuotasImage(_merged_tables(quotas.entities, self.quota_changes))
        return MetadataImage(
            provenance,
            features,
            cluster,
            self.topics.apply() if self.topics_changed else image.topics,
            configs,
            quotas,
            image.producer_ids if self.next_producer_id is None else ProducerIdsImage(self.next_producer_id),
            AclsImage(_merged(image.acls.entries, self.acls)) if self.acls else image.acls,
            ScramImage(_merged(image.scram.credentials, self.scram)) if self.scram else image.scram,
            DelegationTokensImage(_merged(image.delegation_tokens.tokens, self.tokens)) if self.tokens else image.delegation_tokens,
        )


def change_broker(before: BrokerRegistration, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
    """Return the registration after a change: 1 sets a flag, -1 clears it, 0 leaves it (BrokerRegistrationFencingChange)."""
    after = before
    if record.fenced:
        after = after._replace(fenced=record.fenced == 1)
    if record.in_controlled_shutdown:
        after = after._replace(in_controlled_shutdown=True)
    if record.log_dirs:
        after = after._replace(directories=tuple(record.log_dirs))
    if record.cordoned_log_dirs is not None:
        after = after._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
    return after


def acl_entry(record: AccessControlEntryRecord) -> AccessControlEntry:
    """Return the ACL of a record, without its id."""
    return AccessControlEntry(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def quota_entity(record: ClientQuotaRecord) -> Entity:
    """Return the entity of a quota record as a key: (type, name) pairs ordered by type."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda pair: pair[0]))


def _remove_unnamed(before: Mapping[K, object], changes: dict[K, V | None]) -> None:
    for key in before:
        changes.setdefault(key, None)


def _merged(before: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    merged = dict(before)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _merged_tables(before: Mapping[K, Mapping[str, V]], changes: Mapping[K, Mapping[str, V | None]]) -> dict[K, Mapping[str, V]]:
    merged = dict(before)
    for key, values in changes.items():
        table = _merged(merged.get(key, {}), values)
        if table:
            merged[key] = table
        else:
            merged.pop(key, None)
    return merged


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """Return the delegation token of a record."""
    return DelegationToken(
        record.owner, record.requester, tuple(record.renewers), record.issue_timestamp, record.max_timestamp, record.expiration_timestamp
    )
