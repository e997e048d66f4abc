"""Records of a snapshot of an image (org.apache.kafka.image.writer, and the `write` methods of Kafka's images).

Order: metadata.version, other features, brokers, controllers, each topic with its partitions, configurations, quotas, producer ids, ACLs,
SCRAM credentials, delegation tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.metadata import features
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage


def image_records(image: MetadataImage) -> Iterator[VersionedRecord]:
    """Yield records that, replayed into an empty image, give an image of equal state."""
    metadata_version = image.features.metadata_version
    if metadata_version is not None:
        yield VersionedRecord(FeatureLevelRecord(name=features.METADATA_VERSION, feature_level=metadata_version), 0)
    for name, level in image.features.levels.items():
        yield VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)
    level = features.MINIMUM_METADATA_VERSION if metadata_version is None else metadata_version
    for broker in image.cluster.brokers.values():
        yield VersionedRecord(*broker.to_record(level))
    if features.controller_registration_supported(level):
        for controller in image.cluster.controllers.values():
            yield VersionedRecord(*controller.to_record())
    for topic in image.topics.by_name.values():
        yield VersionedRecord(TopicRecord(name=topic.name, topic_id=topic.topic_id), 0)
        for partition_id, partition in topic.partitions.items():
            yield VersionedRecord(*partition.to_record(topic.topic_id, partition_id, level))
    yield from _configuration_records(image)
    yield from _security_records(image)


def _configuration_records(image: MetadataImage) -> Iterator[VersionedRecord]:
    for (resource_type, resource_name), values in image.configs.resources.items():
        for name, value in values.items():
            record = ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
            yield VersionedRecord(record, 0)
    for entity, quotas in image.client_quotas.entities.items():
        for key, quota in quotas.items():
            parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield VersionedRecord(ClientQuotaRecord(entity=parts, key=key, value=quota, remove=False), 0)
    if image.producer_ids.next_producer_id >= 0:
        record_ids = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.producer_ids.next_producer_id)
        yield VersionedRecord(record_ids, 0)


def _security_records(image: MetadataImage) -> Iterator[VersionedRecord]:
    for acl_id, acl in image.acls.entries.items():
        yield VersionedRecord(
            AccessControlEntryRecord(id=acl_id, **acl._asdict()),
            0,
        )
    for (mechanism, user), credential in image.scram.credentials.items():
        yield VersionedRecord(
            UserScramCredentialRecord(
                name=user,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            ),
            0,
        )
    for token_id, token in image.delegation_tokens.tokens.items():
        yield VersionedRecord(
            DelegationTokenRecord(
                owner=token.owner,
                requester=token.requester,
                renewers=list(token.renewers),
                issue_timestamp=token.issue_timestamp,
                max_timestamp=token.max_timestamp,
                expiration_timestamp=token.expiration_timestamp,
                token_id=token_id,
            ),
            0,
        )
