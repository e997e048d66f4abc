"""When the controller asks the operator's policies, what it tells them, and what their answers become."""

from __future__ import annotations

import logging

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.configs import IMPLICIT_DELETE, alter_configs, incremental_alter_configs
from odradek.controller.core.policies import Policies
from odradek.controller.core.result import VersionedRecord
from odradek.controller.core.topics import create_partitions, create_topics
from odradek.policies import AlterConfigRequest, CreateTopicRequest
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata_records import ConfigRecord
from tests.controller.harness import Controller
from tests.policies.samples import ConfigRule, TopicRule

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


class Ruled:
    """A controller with two brokers and both policies."""

    def __init__(self) -> None:
        self.controller = Controller(elr=False)
        self.controller.join(1, 2)
        self.topics, self.configs = TopicRule(), ConfigRule()
        self.controller.core.context.policies = Policies(self.topics, self.configs)

    def create(self, *topics: Topic, validate_only: bool = False) -> list[tuple[str, int, str | None]]:
        answer = self.controller.ask(create_topics, CreateTopicsRequest(topics=list(topics), validate_only=validate_only))
        return [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics]

    def change(self, kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False) -> tuple[int, str | None]:
        change = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
        change.configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in configs
        ]
        request = IncrementalAlterConfigsRequest(resources=[change], validate_only=validate_only)
        (row,) = self.controller.ask(incremental_alter_configs, request).responses
        return row.error_code, row.error_message

    def replace(self, kind: int, name: str, **configs: str) -> tuple[int, str | None]:
        change = AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
        change.configs = [AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        (row,) = self.controller.ask(alter_configs, AlterConfigsRequest(resources=[change])).responses
        return row.error_code, row.error_message


@pytest.fixture
def ruled() -> Ruled:
    return Ruled()


def test_a_topic_is_told_as_it_was_asked_for(ruled: Ruled) -> None:
    ruled.create(Topic(name="plain", num_partitions=3, replication_factor=2, configs=[Config(name="retention.ms", value="5")]))
    ruled.create(Topic(name="open", num_partitions=-1, replication_factor=-1))
    given = [Assignment(partition_index=1, broker_ids=[2]), Assignment(partition_index=0, broker_ids=[1])]
    ruled.create(Topic(name="placed", num_partitions=-1, replication_factor=-1, assignments=given))
    assert ruled.topics.asked == [
        CreateTopicRequest("plain", 3, 2, None, {"retention.ms": "5"}),
        CreateTopicRequest("open", 1, 1, None, {}),
        CreateTopicRequest("placed", None, None, {1: (2,), 0: (1,)}, {}),
    ]
    assert ruled.configs.asked == [AlterConfigRequest("TOPIC", "plain", {"retention.ms": "5"})]


def test_each_topic_is_judged_for_itself(ruled: Ruled, caplog: pytest.LogCaptureFixture) -> None:
    names = ("violation", "silent", "failure", "other", "good")
    with caplog.at_level(logging.ERROR):
        found = ruled.create(*(Topic(name=name, num_partitions=1, replication_factor=1) for name in names))
    assert found == [
        ("violation", ErrorCode.POLICY_VIOLATION, "violation 1 1 null {} None"),
        ("silent", ErrorCode.POLICY_VIOLATION, ""),
        ("failure", ErrorCode.UNKNOWN_SERVER_ERROR, None),
        ("other", ErrorCode.INVALID_REQUEST, "other 1 1 null {} None"),
        ("good", ErrorCode.NONE, None),
    ]
    assert "the policy of create.topic.policy.class.name failed" in caplog.text
    assert "the secret of the operator" in caplog.text
    assert list(ruled.controller.core.state.topic_ids) == ["good"]


def test_a_request_that_only_validates_is_judged(ruled: Ruled) -> None:
    topic = Topic(name="violation", num_partitions=1, replication_factor=1)
    assert [code for _, code, _ in ruled.create(topic, validate_only=True)] == [ErrorCode.POLICY_VIOLATION]
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    code, _ = ruled.change(2, "t", ("max.message.bytes", 0, "13"), validate_only=True)
    assert code == ErrorCode.POLICY_VIOLATION


def test_what_is_wrong_anyway_is_not_asked_about(ruled: Ruled) -> None:
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    ruled.topics.asked.clear()
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1), Topic(name="a b", num_partitions=1, replication_factor=1))
    ruled.create(Topic(name="much", num_partitions=1, replication_factor=9))
    ruled.create(Topic(name="none", num_partitions=1, replication_factor=1, configs=[Config(name="no.key", value="1")]))
    ruled.change(2, "t", ("no.key", 0, "1"))
    ruled.change(2, "missing", ("retention.ms", 0, "1"))
    assert ruled.topics.asked == []
    assert ruled.configs.asked == []


def test_more_partitions_are_nobodys_business(ruled: Ruled) -> None:
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    ruled.topics.asked.clear()
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=5, assignments=None)
    (row,) = ruled.controller.ask(create_partitions, CreatePartitionsRequest(topics=[more])).results
    assert row.error_code == ErrorCode.NONE
    assert ruled.topics.asked == []


def test_a_change_is_told_as_what_becomes_of_each_key(ruled: Ruled) -> None:
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    ruled.change(2, "t", ("retention.ms", 0, "5"), ("cleanup.policy", 2, "compact"))
    ruled.change(2, "t", ("retention.ms", 1, None), ("cleanup.policy", 3, "delete"))
    ruled.change(2, "t", ("cleanup.policy", 0, "compact"))
    ruled.change(4, "", ("message.max.bytes", 0, "2000"))
    ruled.change(4, "", ("message.max.bytes", 0, "2000"))
    assert ruled.configs.asked == [
        AlterConfigRequest("TOPIC", "t", {"retention.ms": "5", "cleanup.policy": "delete,compact"}),
        AlterConfigRequest("TOPIC", "t", {"retention.ms": None, "cleanup.policy": "compact"}),
        AlterConfigRequest("TOPIC", "t", {}),
        AlterConfigRequest("BROKER", "", {"message.max.bytes": "2000"}),
        AlterConfigRequest("BROKER", "", {"message.max.bytes": "2000"}),
    ]


def test_what_a_replacement_takes_away_is_not_told(ruled: Ruled) -> None:
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    ruled.change(2, "t", ("retention.ms", 0, "5"))
    ruled.configs.asked.clear()
    assert ruled.replace(2, "t", segment_ms="7") == (ErrorCode.NONE, None)
    assert ruled.configs.asked == [AlterConfigRequest("TOPIC", "t", {"segment.ms": "7"})]
    assert ruled.controller.core.state.configs[2, "t"] == {"segment.ms": "7"}


def test_no_client_can_take_a_key_away_unseen(ruled: Ruled) -> None:
    assert IMPLICIT_DELETE not in range(-128, 128)
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    ruled.change(2, "t", ("retention.ms", 0, "5"))
    for operation in (-1, 4, 127):
        assert ruled.change(2, "t", ("retention.ms", operation, None))[0] == ErrorCode.INVALID_REQUEST
    assert ruled.controller.core.state.configs[2, "t"] == {"retention.ms": "5"}


def test_a_reference_that_jvm_kafka_has_stored_for_a_number_is_passed_over(ruled: Ruled) -> None:
    record = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="${file:/etc/x:y}")
    ruled.controller.append([VersionedRecord(record, 0)])
    assert [code for _, code, _ in ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))] == [ErrorCode.NONE]
    topic = ruled.controller.core.state.topic("t")
    assert topic is not None
    assert ruled.controller.core.context.min_isr(topic) == 1


def test_a_violation_changes_nothing(ruled: Ruled) -> None:
    ruled.create(Topic(name="t", num_partitions=1, replication_factor=1))
    assert ruled.change(2, "t", ("max.message.bytes", 0, "13")) == (ErrorCode.POLICY_VIOLATION, "TOPIC t {max.message.bytes=13}")
    assert ruled.replace(4, "", message_max_bytes="13") == (ErrorCode.POLICY_VIOLATION, "BROKER  {message.max.bytes=13}")
    assert not ruled.controller.core.state.configs
    found = ruled.create(Topic(name="u", num_partitions=1, replication_factor=1, configs=[Config(name="max.message.bytes", value="13")]))
    assert found == [("u", ErrorCode.POLICY_VIOLATION, "TOPIC u {max.message.bytes=13}")]
