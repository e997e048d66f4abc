"""Images made from records."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

DIRECTORY = UUID(int=1000)


TOPIC, OTHER = UUID(int=201), UUID(int=202)


def broker(broker_id: int, *, fenced: bool = False, listener: str = "PLAINTEXT") -> RegisterBrokerRecord:
    endpoint = RegisterBrokerRecord.BrokerEndpoint(name=listener, host=f"h{broker_id}", port=9092, security_protocol=0)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=broker_id * 10,
        incarnation_id=UUID(int=5),
        end_points=[endpoint],
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def partition(number: int, topic: UUID = TOPIC, replicas: tuple[int, ...] = (1, 2)) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY] * len(replicas),
    )


def applied(image: MetadataImage, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(MetadataProvenance(image.offset + len(records), 1, 0))


@pytest.fixture
def image() -> MetadataImage:
    return applied(
        EMPTY,
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker(1),
        broker(2),
        TopicRecord(name="flights", topic_id=TOPIC),
        *(partition(number) for number in range(3)),
        TopicRecord(name="airports", topic_id=OTHER),
        partition(0, OTHER, (2,)),
    )
