"""Topics: what is created, what is refused and why."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.topics import create_partitions, create_topics, delete_topics
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.metadata_records import ConfigRecord, PartitionRecord, TopicRecord

from .harness import Controller, directory

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


@pytest.fixture
def controller() -> Controller:
    made = Controller()
    made.join(0, 1, 2)
    return made


def test_a_topic_is_one_topic_record_its_configs_and_its_partitions(controller: Controller) -> None:
    before = len(controller.log)
    result = controller.create("flights", 2, 3, configs=[Config(name="retention.ms", value="1000")])
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 3)
    records = controller.log[before:]
    assert [(type(r.message), r.version) for r in records] == [
        (TopicRecord, 0),
        (ConfigRecord, 0),
        (PartitionRecord, 2),
        (PartitionRecord, 2),
    ]
    first = records[2].message
    assert isinstance(first, PartitionRecord)
    assert sorted(first.replicas) == [0, 1, 2]
    assert first.isr == first.replicas
    assert first.leader == first.replicas[0]
    assert first.directories == [directory(replica) for replica in first.replicas]
    assert (first.leader_epoch, first.partition_epoch) == (0, 0)


def test_counts_of_minus_one_mean_the_brokers_defaults() -> None:
    controller = Controller(settings={"num.partitions": "4", "default.replication.factor": "2"})
    controller.join(0, 1)
    result = controller.create("flights", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_the_answer_holds_the_effective_configuration(controller: Controller) -> None:
    result = controller.create("flights", configs=[Config(name="retention.ms", value="1000")])
    assert result.configs is not None
    found = {config.name: (config.value, config.config_source) for config in result.configs}
    assert found["retention.ms"] == ("1000", 1)
    assert found["segment.bytes"] == ("1073741824", 5)
    assert [config.name for config in result.configs] == sorted(found)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (Topic(name="", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="..", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="x" * 250, num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="Flüge", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="a\n", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="a_b", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (Topic(name="a.b", num_partitions=1, replication_factor=1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (Topic(name="t", num_partitions=0, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (Topic(name="t", num_partitions=-2, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (Topic(name="t", num_partitions=1, replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic(name="t", num_partitions=1, replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic(name="t", num_partitions=1, replication_factor=1, configs=[Config(name="nope", value="1")]), ErrorCode.INVALID_CONFIG),
        (
            Topic(name="t", num_partitions=1, replication_factor=1, configs=[Config(name="retention.ms", value="x")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            Topic(name="t", num_partitions=1, replication_factor=1, configs=[Config(name="retention.ms", value=None)]),
            ErrorCode.INVALID_CONFIG,
        ),
        (Topic(name="__cluster_metadata", num_partitions=1, replication_factor=1), ErrorCode.INVALID_REQUEST),
        (
            Topic(name="t", num_partitions=1, replication_factor=-1, assignments=[Assignment(partition_index=0, broker_ids=[0])]),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            Topic(name="t", num_partitions=-1, replication_factor=-1, assignments=[Assignment(partition_index=1, broker_ids=[0])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            Topic(name="t", num_partitions=-1, replication_factor=-1, assignments=[Assignment(partition_index=0, broker_ids=[0, 0])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            Topic(name="t", num_partitions=-1, replication_factor=-1, assignments=[Assignment(partition_index=0, broker_ids=[7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_what_cannot_be_created_is_refused(controller: Controller, topic: CreateTopicsRequest.CreatableTopic, code: ErrorCode) -> None:
    assert controller.create("a.b").error_code == 0
    before = len(controller.log)
    response = controller.ask(create_topics, CreateTopicsRequest(topics=[topic]))
    assert [t.error_code for t in response.topics] == [code]
    assert len(controller.log) == before


def test_a_topic_named_twice_is_refused_and_the_others_are_made(controller: Controller) -> None:
    topics = [Topic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b", "a")]
    response = controller.ask(create_topics, CreateTopicsRequest(topics=topics))
    assert {(t.name, t.error_code) for t in response.topics} == {("b", 0), ("a", ErrorCode.INVALID_REQUEST)}


def test_validate_only_writes_nothing(controller: Controller) -> None:
    before = len(controller.log)
    request = CreateTopicsRequest(topics=[Topic(name="a", num_partitions=1, replication_factor=1)], validate_only=True)
    assert controller.ask(create_topics, request).topics[0].error_code == 0
    assert len(controller.log) == before


def test_too_many_partitions_in_one_request_are_refused(controller: Controller) -> None:
    with pytest.raises(KafkaError) as caught:
        controller.create("a", 10_001)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_a_negative_count_makes_no_room_for_a_huge_one(controller: Controller) -> None:
    topics = [
        Topic(name="a", num_partitions=-(2**31), replication_factor=1),
        Topic(name="b", num_partitions=2**31 - 1, replication_factor=1),
    ]
    with pytest.raises(KafkaError) as caught:
        controller.ask(create_topics, CreateTopicsRequest(topics=topics))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_given_replicas_are_kept(controller: Controller) -> None:
    assignments = [Assignment(partition_index=1, broker_ids=[2, 0]), Assignment(partition_index=0, broker_ids=[1, 2])]
    assert controller.create("a", -1, -1, assignments=assignments).error_code == 0
    assert controller.partition("a", 0).replicas == (1, 2)
    assert controller.partition("a", 1).replicas == (2, 0)


def test_without_a_live_broker_no_topic_is_made() -> None:
    controller = Controller()
    controller.register(0)
    assert controller.create("a").error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_partitions_are_added_never_taken_away(controller: Controller) -> None:
    controller.create("a", 2, 2)
    grow = CreatePartitionsRequest.CreatePartitionsTopic

    def ask(count: int, name: str = "a") -> int:
        request = CreatePartitionsRequest(topics=[grow(name=name, count=count, assignments=None)])
        return controller.ask(create_partitions, request).results[0].error_code

    assert ask(2) == ErrorCode.INVALID_PARTITIONS
    assert ask(1) == ErrorCode.INVALID_PARTITIONS
    assert ask(3, "b") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(5) == 0
    assert all(len(controller.partition("a", number).replicas) == 2 for number in range(5))


def test_deleting_goes_by_name_or_by_id(controller: Controller) -> None:
    first = controller.create("a", configs=[Config(name="retention.ms", value="1")]).topic_id
    controller.create("b")
    state = DeleteTopicsRequest.DeleteTopicState
    request = DeleteTopicsRequest(
        topics=[
            state(name=None, topic_id=first),
            state(name="b"),
            state(name="c"),
            state(name=None, topic_id=UUID(int=12345)),
            state(name=None),
            state(name="b2", topic_id=first),
        ]
    )
    response = controller.ask(delete_topics, request, 6)
    by_name = {answer.name: answer.error_code for answer in response.responses}
    assert by_name["c"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_name["b"] == 0
    assert ErrorCode.UNKNOWN_TOPIC_ID in [answer.error_code for answer in response.responses]
    assert "b" not in controller.core.state.topic_ids
    assert controller.image().configs.topic("a") == {}


def test_a_deleted_topics_configuration_does_not_come_back(controller: Controller) -> None:
    controller.create("a", configs=[Config(name="retention.ms", value="1")])
    controller.ask(delete_topics, DeleteTopicsRequest(topic_names=["a"]), 1)
    controller.create("a")
    assert controller.core.state.configs.get((2, "a")) is None
    assert controller.image().configs.topic("a") == {}


def test_deletion_can_be_turned_off() -> None:
    controller = Controller(settings={"delete.topic.enable": "false"})
    with pytest.raises(KafkaError) as caught:
        controller.ask(delete_topics, DeleteTopicsRequest(topic_names=["a"]), 5)
    assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED
