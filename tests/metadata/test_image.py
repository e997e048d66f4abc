"""Images: sharing, deltas, snapshots, and the answers read off them."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.metadata.queries import describe_topics, metadata_topics
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
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record
from tests.metadata.support import DIRECTORY, OTHER, TOPIC, applied, partition
from tests.metadata.support import image as image

EVERYTHING = (
    FeatureLevelRecord(name="group.version", feature_level=1),
    RegisterControllerRecord(controller_id=9, incarnation_id=UUID(int=6)),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="1"),
    ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ClientQuotaRecord(entity=[ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", value=1.5),
    ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=3000),
    AccessControlEntryRecord(
        id=UUID(int=7), resource_type=2, resource_name="x", pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
    ),
    UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
    DelegationTokenRecord(
        owner="User:a", requester="User:b", renewers=["User:c"], issue_timestamp=1, max_timestamp=3, expiration_timestamp=2, token_id="t"
    ),
    ZkMigrationStateRecord(zk_migration_state=0),
    NoOpRecord(),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1], eligible_leader_replicas=[2], last_known_elr=[]),
)


def test_a_snapshot_holds_all_there_is(image: MetadataImage) -> None:
    full = applied(image, *EVERYTHING)
    again = MetadataDelta(EMPTY)
    for message, version in full.to_records():
        again.replay(decode_metadata_record(encode_metadata_record(message, version))[0])
    assert again.apply(full.provenance) == full
    assert len(full.to_records()) == 1 + 1 + 2 + 1 + 2 + 3 + 1 + 2 + 1 + 1 + 1 + 1 + 1


def test_a_snapshot_begins_with_the_metadata_version(image: MetadataImage) -> None:
    first = applied(image, *EVERYTHING).to_records()[0].message
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"


def test_what_a_snapshot_does_not_name_is_gone(image: MetadataImage) -> None:
    full = applied(image, *EVERYTHING)
    delta = MetadataDelta(full)
    for message, _ in image.to_records():
        delta.replay(message)
    delta.finish_snapshot()
    assert delta.apply(image.provenance) == image


def test_what_was_added_can_be_removed(image: MetadataImage) -> None:
    full = applied(image, *EVERYTHING)
    less = applied(
        full,
        RemoveAccessControlEntryRecord(id=UUID(int=7)),
        RemoveUserScramCredentialRecord(name="a", mechanism=1),
        RemoveDelegationTokenRecord(token_id="t"),
        ClientQuotaRecord(
            entity=[ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", remove=True
        ),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
        FeatureLevelRecord(name="group.version", feature_level=0),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=20),
        ClearElrRecord(topic_name="flights"),
        RemoveTopicRecord(topic_id=OTHER),
    )
    assert not less.acls.entries
    assert not less.scram.credentials
    assert not less.delegation_tokens.tokens
    assert not less.client_quotas.entities
    assert set(less.configs.resources) == {(2, "flights")}
    assert set(less.cluster.brokers) == {1}
    assert set(less.topics.by_name) == {"flights"}
    assert less.topics.by_name["flights"].partitions[0].elr == ()
    assert applied(less, RemoveTopicRecord(topic_id=TOPIC)).configs.resources == {}


def test_what_did_not_change_is_shared(image: MetadataImage) -> None:
    following = applied(image, PartitionChangeRecord(partition_id=1, topic_id=TOPIC, isr=[1]))
    assert following.cluster is image.cluster
    assert following.configs is image.configs
    assert following.topics.by_id[OTHER] is image.topics.by_id[OTHER]
    assert following.topics.by_id[TOPIC].partitions[0] is image.topics.by_id[TOPIC].partitions[0]
    assert image.topics.by_id[TOPIC].partitions[1].isr == (1, 2)
    assert applied(image, NoOpRecord()).topics is image.topics


def test_a_leader_that_is_named_bumps_the_leader_epoch(image: MetadataImage) -> None:
    changed = applied(image, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]))
    assert changed.topics.by_id[TOPIC].partitions[0][7:9] == (0, 1)
    changed = applied(changed, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1))
    assert changed.topics.by_id[TOPIC].partitions[0][7:9] == (1, 2)


def test_records_that_contradict_the_state_are_refused(image: MetadataImage) -> None:
    for record in (
        FenceBrokerRecord(id=1, epoch=99),
        BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=1, fenced=1),
        PartitionChangeRecord(partition_id=9, topic_id=TOPIC, isr=[1]),
        PartitionRecord(partition_id=0, topic_id=UUID(int=999)),
        RemoveTopicRecord(topic_id=UUID(int=999)),
        object(),
    ):
        with pytest.raises(ValueError, match=r".+"):
            MetadataDelta(image).replay(record)


def test_what_a_broker_has_to_do(image: MetadataImage) -> None:
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2))
    delta.replay(PartitionChangeRecord(partition_id=1, topic_id=TOPIC, isr=[1]))
    delta.replay(PartitionChangeRecord(partition_id=2, topic_id=TOPIC, replicas=[1], isr=[1], directories=[DIRECTORY]))
    delta.replay(RemoveTopicRecord(topic_id=OTHER))
    one, two = delta.topics.local_changes(1), delta.topics.local_changes(2)
    assert set(one.followers) == {TopicPartition("flights", 0)}
    assert set(one.leaders) == {TopicPartition("flights", 1), TopicPartition("flights", 2)}
    assert not one.elected_leaders
    assert not one.deletes
    assert set(two.elected_leaders) == set(two.leaders) == {TopicPartition("flights", 0)}
    assert set(two.followers) == {TopicPartition("flights", 1)}
    assert two.deletes == {TopicPartition("flights", 2), TopicPartition("airports", 0)}


def test_a_leader_that_cannot_be_reached_is_no_leader(image: MetadataImage) -> None:
    def leader(of: MetadataImage, listener: str, *, listener_errors: bool = True) -> tuple[int, int]:
        topics = list(metadata_topics(of, ["airports"], listener, hide_unreachable=False, listener_errors=listener_errors))
        return topics[0].partitions[0].error_code, topics[0].partitions[0].leader_id

    assert leader(image, "PLAINTEXT") == (0, 2)
    assert leader(image, "OTHER") == (ErrorCode.LISTENER_NOT_FOUND, -1)
    assert leader(image, "OTHER", listener_errors=False) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert leader(applied(image, UnregisterBrokerRecord(broker_id=2, broker_epoch=20)), "PLAINTEXT") == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert list(metadata_topics(image, ["nope"], "PLAINTEXT", hide_unreachable=False, listener_errors=True)) == []


def test_replicas_on_fenced_brokers_are_offline(image: MetadataImage) -> None:
    fenced = applied(image, FenceBrokerRecord(id=2, epoch=20))
    (topic,) = metadata_topics(fenced, ["flights"], "PLAINTEXT", hide_unreachable=False, listener_errors=True)
    assert [p.offline_replicas for p in topic.partitions] == [[2], [2], [2]]


def test_pages_follow_one_another_to_the_end(image: MetadataImage) -> None:
    seen: list[tuple[str | None, int]] = []
    names = sorted(image.topics.by_name)
    first, start = "", 0
    for _ in range(10):
        page = describe_topics(
            image,
            [name for name in names if name >= first],
            "PLAINTEXT",
            first_topic=first,
            first_partition=start,
            limit=2,
            only_existing=True,
        )
        found = [(topic.name, p.partition_index) for topic in page.topics for p in topic.partitions]
        assert 0 < len(found) <= 2
        seen += found
        if page.next_cursor is None:
            break
        first, start = page.next_cursor.topic_name, page.next_cursor.partition_index
    assert seen == [("airports", 0), ("flights", 0), ("flights", 1), ("flights", 2)]


def test_a_page_holds_no_more_partitions_than_asked_for_of_however_many_topics(image: MetadataImage) -> None:
    third = UUID(int=203)
    grown = applied(image, TopicRecord(name="zones", topic_id=third), *(partition(number, third) for number in range(3)))
    page = describe_topics(grown, ["flights", "zones"], "PLAINTEXT", first_topic="", first_partition=0, limit=4, only_existing=True)
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("flights", 3), ("zones", 1)]
    assert page.next_cursor is not None
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("zones", 1)
