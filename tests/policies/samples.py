"""Policies of an operator; `jvm/*.java` has the same rules in Java."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.policies import AlterConfigPolicy, AlterConfigRequest, CreateTopicPolicy, CreateTopicRequest, PolicyViolation


def told(value: object) -> str:
    """As the Java policies write it: maps in the order of their keys, nothing as null."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={told(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(told, value)) + "]"
    return str(value)


def judge(name: str, line: str) -> None:
    """What a name asks for is done."""
    if "violation" in name:
        raise PolicyViolation(line)
    if "silent" in name:
        raise PolicyViolation
    if "failure" in name:
        raise RuntimeError("the secret of the operator")
    if "other" in name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, line)


class TopicRule(CreateTopicPolicy):
    """Judges by the name of the topic, and tells what it was asked."""

    made: ClassVar[list[TopicRule]] = []

    def __init__(self) -> None:
        self.configs: dict[str, str] = {}
        self.asked: list[CreateTopicRequest] = []
        self.closed = 0
        TopicRule.made.append(self)

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = dict(configs)

    def validate(self, request: CreateTopicRequest) -> None:
        self.asked.append(request)
        judge(
            request.topic,
            f"{request.topic} {told(request.num_partitions)} {told(request.replication_factor)} "
            f"{told(request.replicas_assignments)} {told(request.configs)} {self.configs.get('create.topic.policy.word')}",
        )

    def close(self) -> None:
        self.closed += 1


class ConfigRule(AlterConfigPolicy):
    """Judges by the name of the resource, or by a value of its configuration."""

    def __init__(self) -> None:
        self.asked: list[AlterConfigRequest] = []

    def validate(self, request: AlterConfigRequest) -> None:
        self.asked.append(request)
        line = f"{request.resource_type} {request.resource_name} {told(request.configs)}"
        judge(request.resource_name, line)
        if request.configs.get("max.message.bytes") == "13" or request.configs.get("message.max.bytes") == "13":
            raise PolicyViolation(line)


class Unmade(CreateTopicPolicy):
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no\nluck")


class Unconfigured(CreateTopicPolicy):
    """Does not like its configuration."""

    def configure(self, configs: Mapping[str, str]) -> None:
        raise KeyError("create.topic.policy.word")


class Unclosed(TopicRule):
    """Cannot end."""

    def close(self) -> None:
        raise OSError("stuck")


class NoPolicy:
    """Is none."""
