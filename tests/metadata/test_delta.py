"""Records one after the other, within one delta and over several: what each changes and what it leaves."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.ids import TopicPartition
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.metadata.queries import BrokersSeen, describe_topics, with_listener
from odradek.metadata.registrations import DIRECTORY_LOST, PartitionRegistration
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.metadata.support import DIRECTORY, OTHER, TOPIC, applied, broker, partition

NEW = UUID(int=203)


def cluster() -> MetadataImage:
    return applied(
        EMPTY,
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker(1),
        broker(2),
        TopicRecord(name="flights", topic_id=TOPIC),
        *(partition(number) for number in range(3)),
        TopicRecord(name="airports", topic_id=OTHER),
        partition(0, OTHER, (2, 1)),
    )


def flights(image: MetadataImage, number: int = 0) -> PartitionRegistration:
    return image.topics.by_name["flights"].partitions[number]


def test_a_change_leaves_what_it_does_not_name() -> None:
    named = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, isr=[1], eligible_leader_replicas=[2], last_known_elr=[2], leader_recovery_state=1
    )
    before = flights(applied(cluster(), named))
    after = flights(applied(applied(cluster(), named), PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1, 2])))
    assert after == before._replace(isr=(1, 2), partition_epoch=before.partition_epoch + 1)
    assert (before.elr, before.last_known_elr, before.leader_recovery_state, before.partition_epoch) == ((2,), (2,), 1, 1)


def test_changes_of_one_delta_add_up() -> None:
    image = applied(
        cluster(),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1),
    )
    assert (flights(image).isr, flights(image).leader_epoch, flights(image).partition_epoch) == ((1,), 1, 2)


def test_a_registration_is_fenced_and_unfenced_by_changes() -> None:
    fenced = applied(cluster(), BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=1))
    assert [each.broker_id for each, _ in with_listener(fenced.cluster.alive_brokers(), "PLAINTEXT")] == [1]
    free = applied(fenced, BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=-1))
    assert [each.broker_id for each, _ in with_listener(free.cluster.alive_brokers(), "PLAINTEXT")] == [1, 2]


def test_the_last_cordon_is_lifted_too() -> None:
    def cordoned(image: MetadataImage, directories: list[UUID] | None) -> tuple[MetadataImage, tuple[UUID, ...] | None]:
        image = applied(image, BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, cordoned_log_dirs=directories))
        return image, image.cluster.brokers[2].cordoned_directories

    image, one = cordoned(cluster(), [DIRECTORY])
    image, still = cordoned(image, None)
    image, none = cordoned(image, [])
    assert (one, still, none) == ((DIRECTORY,), (DIRECTORY,), ())


def test_a_lost_directory_is_offline() -> None:
    lost = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=[DIRECTORY, DIRECTORY_LOST])
    image = applied(cluster(), lost)
    seen = BrokersSeen(image, "PLAINTEXT")
    assert [seen.offline_replicas(flights(image, number)) for number in (1, 0, 1)] == [[], [2], []]


def test_a_topic_that_comes_and_goes_within_a_delta_leaves_nothing() -> None:
    image = applied(
        cluster(),
        TopicRecord(name="new", topic_id=NEW),
        PartitionRecord(partition_id=0, topic_id=NEW, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="1"),
        RemoveTopicRecord(topic_id=NEW),
    )
    assert image.configs is EMPTY.configs or "new" not in {name for _, name in image.configs.resources}
    assert image.topics.by_name.keys() == {"flights", "airports"}


def test_a_topic_may_be_deleted_and_made_anew_in_one_go() -> None:
    image = applied(
        cluster(),
        RemoveTopicRecord(topic_id=TOPIC),
        TopicRecord(name="flights", topic_id=NEW),
        PartitionRecord(partition_id=0, topic_id=NEW, replicas=[1, 2], isr=[1], leader=1, eligible_leader_replicas=[2]),
        ClearElrRecord(topic_name="flights"),
    )
    assert image.topics.topic_id("flights") == NEW
    assert set(image.topics.by_id) == {NEW, OTHER}
    assert set(image.topics.by_name["flights"].partitions) == {0}
    assert (flights(image).elr, flights(image).isr) == ((), (1,))


def test_nothing_is_said_about_a_topic_after_its_end() -> None:
    delta = MetadataDelta(cluster())
    delta.replay(RemoveTopicRecord(topic_id=TOPIC))
    with pytest.raises(ValueError, match="does not exist"):
        delta.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]))


def test_a_snapshot_replaces_all_that_was_known() -> None:
    full = cluster()
    delta = MetadataDelta(full)
    for record in (FeatureLevelRecord(name="metadata.version", feature_level=30), broker(1), TopicRecord(name="flights", topic_id=TOPIC)):
        delta.replay(record)
    delta.replay(partition(0))
    delta.finish_snapshot()
    image = delta.apply(MetadataProvenance(100, 1, 0))
    assert set(image.cluster.brokers) == {1}
    assert set(image.topics.by_name) == {"flights"}
    assert set(image.topics.by_name["flights"].partitions) == {0}
    assert delta.topics.local_changes(1).deletes >= {TopicPartition("airports", 0)}


def test_a_deleted_topic_concerns_its_followers_too() -> None:
    delta = MetadataDelta(cluster())
    delta.replay(RemoveTopicRecord(topic_id=OTHER))
    for replica in (1, 2):
        assert delta.topics.local_changes(replica).deletes == {TopicPartition("airports", 0)}


def test_a_replica_assigned_to_another_directory_is_told() -> None:
    other = UUID(int=2000)
    delta = MetadataDelta(cluster())
    delta.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=[other, DIRECTORY]))
    assert delta.topics.local_changes(1).directory_ids == {TopicPartition("flights", 0): other}
    assert delta.topics.local_changes(2).directory_ids == {}


def test_the_elr_of_one_topic_is_cleared_and_those_of_others_stay() -> None:
    image = applied(
        cluster(),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1], eligible_leader_replicas=[2]),
        PartitionChangeRecord(partition_id=0, topic_id=OTHER, isr=[2], eligible_leader_replicas=[1]),
    )
    cleared = applied(image, ClearElrRecord(topic_name="flights"))
    assert flights(cleared).elr == ()
    assert cleared.topics.by_name["airports"].partitions[0].elr == (1,)
    assert applied(image, ClearElrRecord()).topics.by_name["airports"].partitions[0].elr == ()


def test_a_page_that_begins_within_a_topic_has_all_of_the_next() -> None:
    page = describe_topics(
        cluster(), ["flights", "airports"], "PLAINTEXT", first_topic="flights", first_partition=2, limit=9, only_existing=True
    )
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in page.topics] == [
        ("flights", [2]),
        ("airports", [0]),
    ]


def test_the_quota_of_an_entity_is_one_in_whatever_order_it_is_named() -> None:
    user, client = (
        ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in (("user", "ann"), ("client-id", "app"))
    )
    image = applied(cluster(), ClientQuotaRecord(entity=[user, client], key="request_percentage", value=1.0))
    changed = applied(image, ClientQuotaRecord(entity=[client, user], key="request_percentage", value=2.0))
    assert changed.client_quotas.entities == {(("client-id", "app"), ("user", "ann")): {"request_percentage": 2.0}}
    gone = applied(changed, ClientQuotaRecord(entity=[user, client], key="request_percentage", remove=True))
    assert gone.client_quotas.entities == {}
