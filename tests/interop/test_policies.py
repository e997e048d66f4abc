"""Policies of Odradek and of the JVM, with the same rules in Python and in Java: the same requests have the same answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.differential.peer import Peer
from interop.peers import JvmBroker, OdradekBroker, jvm_libs
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata import MetadataRequest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

SOURCES = Path(__file__).parents[1] / "policies"
OVERRIDES = {"create.topic.policy.word": "please", "auto.create.topics.enable": "true", "num.partitions": "2"}
Topic = CreateTopicsRequest.CreatableTopic
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


class RuledOdradek(OdradekBroker):
    def environment(self) -> dict[str, str]:
        environment = super().environment()
        return environment | {"PYTHONPATH": os.pathsep.join([str(SOURCES.parents[1]), environment.get("PYTHONPATH", "")])}


class RuledJvm(JvmBroker):
    classes = Path()

    def start_command(self) -> list[str]:
        return self._with_classes(super().start_command())

    def format_command(self) -> list[str]:
        return self._with_classes(super().format_command())

    def _with_classes(self, command: list[str]) -> list[str]:
        return [f"{word}:{self.classes}" if word == f"{jvm_libs()}/*" else word for word in command]

    def java_options(self) -> tuple[str, ...]:
        return ("-XX:TieredStopAtLevel=1",)


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    folder = tmp_path_factory.mktemp("policies")
    names = {"create.topic.policy.class.name": "TopicRule", "alter.config.policy.class.name": "ConfigRule"}
    theirs = RuledJvm(folder / "jvm", OVERRIDES | names, heap="512m")
    theirs.classes = folder / "classes"
    sources = [str(SOURCES / "jvm" / f"{name}.java") for name in names.values()]
    subprocess.run(["javac", "-nowarn", "-d", str(theirs.classes), "-cp", f"{jvm_libs()}/*", *sources], check=True, capture_output=True)
    ours = RuledOdradek(folder / "odradek", OVERRIDES | {key: f"tests.policies.samples:{name}" for key, name in names.items()})
    try:
        ours.start()
        theirs.start(120)
        both = Peer("odradek", ours.port), Peer("jvm", theirs.port)
        yield both
        for peer in both:
            peer.close()
    finally:
        ours.kill()
        theirs.kill()


def create(*topics: Topic, validate_only: bool = False) -> tuple[ApiKey, CreateTopicsRequest]:
    return ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=list(topics), timeout_ms=20_000, validate_only=validate_only)


def topic(name: str, partitions: int = 1, factor: int = 1, assignments: list[Assignment] | None = None, **configs: str) -> Topic:
    given = [CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return Topic(name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments or [], configs=given)


def change(kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False) -> tuple[ApiKey, Any]:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
    one = IncrementalAlterConfigsRequest.AlterableConfig
    resource.configs = [one(name=key, config_operation=operation, value=value) for key, operation, value in configs]
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(kind: int, name: str, **configs: str) -> tuple[ApiKey, Any]:
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
    resource.configs = [AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return ApiKey.ALTER_CONFIGS, AlterConfigsRequest(resources=[resource])


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, GROUP = 2, 4, 32
REQUESTS = [
    create(topic("good"), topic("violation"), topic("silent"), topic("other"), topic("also-good", 3)),
    create(topic("violation-defaults", -1, -1)),
    create(topic("violation-configs", 2, 1, retention_ms="5", cleanup_policy="compact")),
    create(
        topic("violation-placed", -1, -1, [Assignment(partition_index=1, broker_ids=[1]), Assignment(partition_index=0, broker_ids=[1])])
    ),
    create(topic("violation"), validate_only=True),
    create(topic("violation", 1, 7)),
    create(topic("violation-wrong", 1, 1, no_such_key="5")),
    create(topic("good")),
    create(topic("by-config", 1, 1, max_message_bytes="13")),
    create(topic("other-config", 1, 1, retention_ms="5")),
    change(TOPIC, "good", ("retention.ms", SET, "100000"), ("cleanup.policy", APPEND, "compact"), ("max.message.bytes", SET, "13")),
    change(TOPIC, "good", ("retention.ms", SET, "100000"), ("cleanup.policy", APPEND, "compact")),
    change(TOPIC, "good", ("retention.ms", SET, "100000"), ("max.message.bytes", SET, "13")),
    change(TOPIC, "good", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"), ("max.message.bytes", SET, "13")),
    change(TOPIC, "good", ("max.message.bytes", SET, "13"), validate_only=True),
    replace(TOPIC, "good", max_message_bytes="13", segment_ms="100000"),
    replace(TOPIC, "good", segment_ms="100000"),
    replace(TOPIC, "good", segment_ms="100000", max_message_bytes="13"),
    change(TOPIC, "violation-missing", ("retention.ms", SET, "5")),
    change(TOPIC, "good", ("no.such.key", SET, "5"), ("max.message.bytes", SET, "13")),
    change(BROKER, "", ("message.max.bytes", SET, "13"), ("log.retention.ms", SET, "1000000")),
    change(BROKER, "1", ("message.max.bytes", SET, "13"), ("log.retention.ms", DELETE, None)),
    replace(BROKER, "", message_max_bytes="13"),
    change(GROUP, "violation-group", ("consumer.session.timeout.ms", SET, "46000")),
    change(GROUP, "failure-group", ("consumer.session.timeout.ms", SET, "46000")),
    change(GROUP, "other-group", ("consumer.session.timeout.ms", SET, "46000")),
]


def rows(answer: Any) -> list[tuple[Any, ...]]:
    """What a policy has a part in, in an order of its own."""
    if hasattr(answer, "topics"):
        return sorted((each.name, each.error_code, each.error_message, each.num_partitions) for each in answer.topics)
    return sorted((each.resource_type, each.resource_name, each.error_code, each.error_message) for each in answer.responses)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_the_answers_are_the_same(peers: tuple[Peer, Peer], number: int) -> None:
    key, request = REQUESTS[number]
    version = {ApiKey.CREATE_TOPICS: 7, ApiKey.INCREMENTAL_ALTER_CONFIGS: 1, ApiKey.ALTER_CONFIGS: 2}[key]
    ours, theirs = (rows(peer.call(key, version, request)) for peer in peers)
    assert ours == theirs


def test_a_topic_that_somebody_asks_for_is_judged_and_more_partitions_are_not(peers: tuple[Peer, Peer]) -> None:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="violation-asked-for")], allow_auto_topic_creation=True)
    for peer in peers:
        for _ in range(3):
            (found,) = peer.call(ApiKey.METADATA, 12, asked).topics
            assert found.error_code == 3, peer.name
    more = CreatePartitionsRequest(topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="also-good", count=5, assignments=None)])
    more.timeout_ms = 20_000
    ours, theirs = (peer.call(ApiKey.CREATE_PARTITIONS, 3, more).results[0] for peer in peers)
    assert (ours.error_code, ours.error_message) == (theirs.error_code, theirs.error_message) == (0, None)


def test_a_policy_that_fails(peers: tuple[Peer, Peer]) -> None:
    ours, theirs = (rows(peer.call(*_version(create(topic("failure"), topic("beside"))))) for peer in peers)
    assert ours == theirs
    assert [row[:3] for row in ours] == [("beside", 0, None), ("failure", -1, None)]


def _version(asked: tuple[ApiKey, Any]) -> tuple[ApiKey, int, Any]:
    return asked[0], 7, asked[1]
