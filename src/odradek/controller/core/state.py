"""The controller's view of the cluster. Only replay changes it, and changes can be undone back to the last commit.

Every table is a `JournaledDict`. Values are immutable and replaced, so that the journal can restore the former one. Facts that follow from
other tables (the partitions that a broker leads) are computed on demand. A scan of 10,000 partitions takes one or two milliseconds and only
follows rare events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import JournaledDict, UndoJournal
from odradek.metadata import features
from odradek.metadata.delta import Entity, acl_entry, change_broker, quota_entity, token_of
from odradek.metadata.image import RESOURCE_TOPIC, DelegationToken
from odradek.metadata.registrations import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    BrokerRegistration,
    ControllerRegistration,
    PartitionRegistration,
)
from odradek.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
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
)
from odradek.security.acls import AccessControlEntry


class TopicControl:
    """Topic with its partitions by number."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, journal: UndoJournal) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: JournaledDict[int, PartitionRegistration] = JournaledDict(journal)


class LocatedPartition(NamedTuple):
    """Partition with its topic and number."""

    topic: TopicControl
    number: int
    partition: PartitionRegistration


class ControllerState:
    """Tables of the controller. Only `replay` changes them."""

    __slots__ = (
        "acl_ids",
        "acls",
        "brokers",
        "client_quotas",
        "colliding_names",
        "configs",
        "controllers",
        "features",
        "journal",
        "producer_ids",
        "registration_offsets",
        "scram",
        "tokens",
        "topic_ids",
        "topics",
    )

    def __init__(self, journal: UndoJournal) -> None:
        self.journal = journal
        self.features: JournaledDict[str, int] = JournaledDict(journal)
        """Finalized levels by feature, including metadata.version."""
        self.brokers: JournaledDict[int, BrokerRegistration] = JournaledDict(journal)
        self.registration_offsets: JournaledDict[int, int] = JournaledDict(journal)
        """Offset of the registration record, by broker id."""
        self.controllers: JournaledDict[int, ControllerRegistration] = JournaledDict(journal)
        self.topics: JournaledDict[UUID, TopicControl] = JournaledDict(journal)
        self.topic_ids: JournaledDict[str, UUID] = JournaledDict(journal)
        self.colliding_names: JournaledDict[str, tuple[str, ...]] = JournaledDict(journal)
        """Names of topics that contain "." or "_", by the result of `unify_collision_characters`."""
        self.configs: JournaledDict[tuple[int, str], Mapping[str, str]] = JournaledDict(journal)
        self.producer_ids: JournaledDict[str, int] = JournaledDict(journal)
        """First id of the next block, under the key "next"."""
        self.scram: JournaledDict[tuple[int, str], bool] = JournaledDict(journal)
        """(mechanism, user) of each SCRAM credential."""
        self.client_quotas: JournaledDict[Entity, Mapping[str, float]] = JournaledDict(journal)
        """Quotas by key, by entity. Entities without quotas are absent."""
        self.tokens: JournaledDict[str, DelegationToken] = JournaledDict(journal)
        """Delegation tokens by id."""
        self.acls: JournaledDict[UUID, AccessControlEntry] = JournaledDict(journal)
        self.acl_ids: JournaledDict[AccessControlEntry, UUID] = JournaledDict(journal)
        """Ids by ACL. If two ids have the same ACL, which this controller never writes, the later one."""

    # -- queries ----------------------------------------------------------------------------------------------------------------------

    @property
    def metadata_version(self) -> int:
        level = self.features.get(features.METADATA_VERSION)
        return features.MINIMUM_METADATA_VERSION if level is None else level

    @property
    def elr_enabled(self) -> bool:
        return (self.features.get(features.ELIGIBLE_LEADER_REPLICAS_VERSION) or 0) >= 1

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker may be in an ISR: registered, not fenced and not in controlled shutdown."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def default_directory(self, broker_id: int) -> UUID:
        """Return the log directory for a new replica: the broker's only one, or DIRECTORY_UNASSIGNED if the broker is to choose.

        Return DIRECTORY_MIGRATING for a broker that has registered no directories.
        """
        broker = self.brokers.get(broker_id)
        if broker is None:
            return DIRECTORY_UNASSIGNED
        if not broker.directories:
            return DIRECTORY_MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else DIRECTORY_UNASSIGNED

    def check_broker_epoch(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return the broker's registration. Raises KafkaError STALE_BROKER_EPOCH when `epoch` is not the current one."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
        return broker

    def all_partitions(self) -> Iterator[LocatedPartition]:
        for topic in self.topics.values():
            for number, partition in topic.partitions.items():
                yield LocatedPartition(topic, number, partition)

    def has_leaderships(self, broker_id: int) -> bool:
        return any(each.partition.leader == broker_id for each in self.all_partitions())

    def topic(self, name: str) -> TopicControl | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    # -- replay -----------------------------------------------------------------------------------------------------------------------

    def replay(self, record: object, offset: int) -> None:
        """Apply a record of the metadata log. Ignore records of types that do not concern the controller.

        Raises ValueError for a record that contradicts the state.
        """
        replay = self._REPLAY.get(type(record))
        if replay is not None:
            self.journal.offset = offset
            replay(self, record, offset)

    def _feature(self, record: FeatureLevelRecord, _offset: int) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name)

    def _register_broker(self, record: RegisterBrokerRecord, offset: int) -> None:
        self.brokers[record.broker_id] = BrokerRegistration.from_record(record)
        self.registration_offsets[record.broker_id] = offset

    def _registered(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ValueError(f"a record names broker {broker_id} in epoch {epoch}, which is not registered")
        return broker

    def _unregister_broker(self, record: UnregisterBrokerRecord, _offset: int) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        del self.brokers[record.broker_id]
        self.registration_offsets.pop(record.broker_id)

    def _fence(self, record: FenceBrokerRecord, _offset: int) -> None:
        self.brokers[record.id] = self._registered(record.id, record.epoch)._replace(fenced=True)

    def _unfence(self, record: UnfenceBrokerRecord, _offset: int) -> None:
        self.brokers[record.id] = self._registered(record.id, record.epoch)._replace(fenced=False)

    def _change_broker(self, record: BrokerRegistrationChangeRecord, _offset: int) -> None:
        self.brokers[record.broker_id] = change_broker(self._registered(record.broker_id, record.broker_epoch), record)

    def _register_controller(self, record: RegisterControllerRecord, _offset: int) -> None:
        self.controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def _add_topic(self, record: TopicRecord, _offset: int) -> None:
        if record.name in self.topic_ids:
            raise ValueError(f"a record creates topic {record.name}, which exists")
        self.topics[record.topic_id] = TopicControl(record.name, record.topic_id, self.journal)
        self.topic_ids[record.name] = record.topic_id
        unified = unify_collision_characters(record.name)
        if has_collision_characters(record.name):
            self.colliding_names[unified] = (*(self.colliding_names.get(unified) or ()), record.name)

    def _topic_of(self, topic_id: UUID) -> TopicControl:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise ValueError(f"a record names topic id {topic_id}, which does not exist")
        return topic

    def _add_partition(self, record: PartitionRecord, _offset: int) -> None:
        self._topic_of(record.topic_id).partitions[record.partition_id] = PartitionRegistration.from_record(record)

    def _change_partition(self, record: PartitionChangeRecord, _offset: int) -> None:
        topic = self._topic_of(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise ValueError(f"a record changes {topic.name}-{record.partition_id}, which does not exist")
        topic.partitions[record.partition_id] = before.merge(record)

    def _clear_elr(self, record: ClearElrRecord, _offset: int) -> None:
        for topic in list(self.topics.values()):
            if record.topic_name and topic.name != record.topic_name:
                continue
            for number, before in list(topic.partitions.items()):
                if before.elr or before.last_known_elr:
                    topic.partitions[number] = before._replace(elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)

    def _remove_topic(self, record: RemoveTopicRecord, _offset: int) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics[record.topic_id]
        del self.topic_ids[topic.name]
        self.configs.pop((RESOURCE_TOPIC, topic.name))
        unified = unify_collision_characters(topic.name)
        remaining = tuple(name for name in self.colliding_names.get(unified) or () if name != topic.name)
        if remaining:
            self.colliding_names[unified] = remaining
        else:
            self.colliding_names.pop(unified)

    def _config(self, record: ConfigRecord, _offset: int) -> None:
        resource = (record.resource_type, record.resource_name)
        values = dict(self.configs.get(resource) or {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self.configs[resource] = values
        else:
            self.configs.pop(resource)

    def _producer_ids(self, record: ProducerIdsRecord, _offset: int) -> None:
        if record.next_producer_id <= self.next_producer_id and "next" in self.producer_ids:
            raise ValueError(f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}")
        self.producer_ids["next"] = record.next_producer_id

    def _scram(self, record: UserScramCredentialRecord, _offset: int) -> None:
        self.scram[(record.mechanism, record.name)] = True

    def _remove_scram(self, record: RemoveUserScramCredentialRecord, _offset: int) -> None:
        if self.scram.pop((record.mechanism, record.name)) is None:
            raise ValueError(f"a record removes a SCRAM credential of {record.name} that does not exist")

    def _client_quota(self, record: ClientQuotaRecord, _offset: int) -> None:
        entity = quota_entity(record)
        quotas = dict(self.client_quotas.get(entity) or {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self.client_quotas[entity] = quotas
        else:
            self.client_quotas.pop(entity)

    def _token(self, record: DelegationTokenRecord, _offset: int) -> None:
        self.tokens[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord, _offset: int) -> None:
        self.tokens.pop(record.token_id)

    def _acl(self, record: AccessControlEntryRecord, _offset: int) -> None:
        entry = acl_entry(record)
        self.acls[record.id] = entry
        self.acl_ids[entry] = record.id

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, _offset: int) -> None:
        entry = self.acls.pop(record.id)
        if entry is None:
            raise ValueError(f"a record removes the ACL {record.id}, which does not exist")
        self.acl_ids.pop(entry)

    _REPLAY: ClassVar[dict[type, Callable[..., None]]] = {
        FeatureLevelRecord: _feature,
        RegisterBrokerRecord: _register_broker,
        UnregisterBrokerRecord: _unregister_broker,
        FenceBrokerRecord: _fence,
        UnfenceBrokerRecord: _unfence,
        BrokerRegistrationChangeRecord: _change_broker,
        RegisterControllerRecord: _register_controller,
        TopicRecord: _add_topic,
        PartitionRecord: _add_partition,
        PartitionChangeRecord: _change_partition,
        ClearElrRecord: _clear_elr,
        RemoveTopicRecord: _remove_topic,
        ConfigRecord: _config,
        ProducerIdsRecord: _producer_ids,
        UserScramCredentialRecord: _scram,
        RemoveUserScramCredentialRecord: _remove_scram,
        ClientQuotaRecord: _client_quota,
        DelegationTokenRecord: _token,
        RemoveDelegationTokenRecord: _remove_token,
        AccessControlEntryRecord: _acl,
        RemoveAccessControlEntryRecord: _remove_acl,
    }

    @property
    def next_producer_id(self) -> int:
        return self.producer_ids.get("next") or 0

    def comparable(self) -> object:
        """Return the whole state as a value, so that tests can compare two states."""
        return (
            dict(self.features.items()),
            dict(self.brokers.items()),
            dict(self.registration_offsets.items()),
            dict(self.controllers.items()),
            {topic_id: (topic.name, dict(topic.partitions.items())) for topic_id, topic in self.topics.items()},
            dict(self.topic_ids.items()),
            {name: sorted(names) for name, names in self.colliding_names.items()},
            {resource: dict(values) for resource, values in self.configs.items()},
            dict(self.producer_ids.items()),
            dict(self.scram.items()),
            dict(self.client_quotas.items()),
            dict(self.tokens.items()),
            dict(self.acls.items()),
            dict(self.acl_ids.items()),
        )


def has_collision_characters(name: str) -> bool:
    """Return whether the name may collide with another one in metric names, where "." becomes "_"."""
    return "." in name or "_" in name


def unify_collision_characters(name: str) -> str:
    return name.replace(".", "_")
