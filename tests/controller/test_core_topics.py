"""Topics: what is created, what is refused and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.topics import (
    create_partitions,
    create_partitions_error,
    create_topics,
    create_topics_error,
    delete_topics,
    delete_topics_error,
)
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


class TestReplicas:
    def test_only_those_that_live_are_in_sync(self, controller: Controller) -> None:
        controller.heartbeat(1, want_fence=True)
        assignments = [Assignment(partition_index=0, broker_ids=[1, 0, 2])]
        assert controller.create("given", -1, -1, assignments=assignments).error_code == 0
        given = controller.partition("given")
        assert (given.replicas, given.isr, given.leader) == ((1, 0, 2), (0, 2), 0)
        assert controller.create("placed", 1, 3).error_code == 0
        placed = controller.partition("placed")
        assert (set(placed.replicas), set(placed.isr)) == ({0, 1, 2}, {0, 2})

    def test_somebody_has_to_live(self, controller: Controller) -> None:
        controller.heartbeat(1, want_fence=True)
        answer = controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[1])])
        assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_all_partitions_have_as_many(self, controller: Controller) -> None:
        uneven = [Assignment(partition_index=0, broker_ids=[0, 1]), Assignment(partition_index=1, broker_ids=[2])]
        assert controller.create("a", -1, -1, assignments=uneven).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert controller.create("a", 1, 2).error_code == 0
        assert grow(controller, 2, [[0]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert grow(controller, 3, [[0, 1]]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "two more, one given"
        assert grow(controller, 2, [[2, 1]]) == 0
        assert controller.partition("a", 1).replicas == (2, 1)

    def test_none_on_a_broker_whose_directories_are_cordoned(self, controller: Controller) -> None:
        controller.heartbeat(1, cordoned_log_dirs=[directory(1)])
        assert controller.create("a", 1, 3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert controller.create("a", 6, 2).error_code == 0
        assert all(1 not in controller.partition("a", number).replicas for number in range(6))
        controller.heartbeat(1, cordoned_log_dirs=[])
        assert controller.create("b", 1, 3).error_code == 0


def grow(controller: Controller, count: int, replicas: list[list[int]] | None = None, *, dry: bool = False) -> int:
    given = CreatePartitionsRequest.CreatePartitionsAssignment
    assignments = None if replicas is None else [given(broker_ids=each) for each in replicas]
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=count, assignments=assignments)
    answer = controller.ask(create_partitions, CreatePartitionsRequest(topics=[topic], validate_only=dry))
    return int(answer.results[0].error_code)


def test_growing_leaves_the_partitions_that_are_there_alone(controller: Controller) -> None:
    controller.create("a", 2, 2)
    before = [controller.partition("a", number) for number in range(2)]
    assert grow(controller, 4, dry=True) == 0
    assert sorted(controller.core.state.topics[controller.core.state.topic_ids["a"]].partitions) == [0, 1]
    assert grow(controller, 4) == 0
    assert [controller.partition("a", number) for number in range(2)] == before
    assert sorted(controller.core.state.topics[controller.core.state.topic_ids["a"]].partitions) == [0, 1, 2, 3]


def test_one_record_too_many_refuses_its_topic_and_one_partition_too_many_the_request(controller: Controller) -> None:
    assert controller.create("full", 10_000).error_code == ErrorCode.POLICY_VIOLATION, "10,000 partitions and their topic"
    assert controller.create("fits", 9_999).error_code == 0


class TestDeletion:
    def test_a_topic_named_by_name_and_by_id_is_not_deleted(self, controller: Controller) -> None:
        topic_id = controller.create("a").topic_id
        state = DeleteTopicsRequest.DeleteTopicState
        answer = controller.ask(delete_topics, DeleteTopicsRequest(topics=[state(name="a"), state(name=None, topic_id=topic_id)]))
        assert {each.error_code for each in answer.responses} == {int(ErrorCode.INVALID_REQUEST)}
        assert "a" in controller.core.state.topic_ids

    def test_its_name_is_free_again_and_so_are_those_like_it(self, controller: Controller) -> None:
        controller.create("a.b")
        controller.create("a.b.c")
        controller.ask(delete_topics, DeleteTopicsRequest(topic_names=["a.b"]), 5)
        assert controller.create("a_b").error_code == 0
        assert controller.create("a_b_c").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        controller.ask(delete_topics, DeleteTopicsRequest(topic_names=["a_b"]), 5)
        assert controller.create("a.b").error_code == 0

    @pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
    def test_when_it_is_turned_off_the_error_is_one_that_the_version_knows(self, version: int, code: ErrorCode) -> None:
        controller = Controller(settings={"delete.topic.enable": "false"})
        with pytest.raises(KafkaError) as caught:
            controller.ask(delete_topics, DeleteTopicsRequest(topic_names=["a"]), version)
        assert caught.value.code is code


@pytest.mark.parametrize(
    ("error_of", "request_"),
    [
        (create_topics_error, CreateTopicsRequest(topics=[Topic(name="a"), Topic(name="b")])),
        (
            create_partitions_error,
            CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=name) for name in ("a", "b")]),
        ),
        (delete_topics_error, DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in ("a", "b")])),
        (delete_topics_error, DeleteTopicsRequest(topic_names=["a", "b"])),
    ],
)
def test_a_request_that_fails_as_a_whole_names_every_topic(error_of: Callable[..., Any], request_: Any) -> None:
    response = error_of(request_, KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere"))
    (answers,) = [value for value in (getattr(response, name, None) for name in ("topics", "results", "responses")) if value]
    assert [(each.name, each.error_code, each.error_message) for each in answers] == [
        (name, ErrorCode.NOT_CONTROLLER, "elsewhere") for name in ("a", "b")
    ]
