"""Calls of the operator's policies, and the Kafka errors for their exceptions (org.apache.kafka.common.requests.ApiError)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.policies import AlterConfigRequest, CreateTopicRequest, PolicyViolation

if TYPE_CHECKING:
    from odradek.policies import AlterConfigPolicy, CreateTopicPolicy

logger = logging.getLogger(__name__)

_TYPES = {RESOURCE_TOPIC: "TOPIC", RESOURCE_BROKER: "BROKER", RESOURCE_GROUP: "GROUP"}


class Policies:
    """Operator's policies, each optional. A check raises KafkaError when its policy refuses or fails."""

    __slots__ = ("_configs", "_topics")

    def __init__(self, topics: CreateTopicPolicy | None = None, configs: AlterConfigPolicy | None = None) -> None:
        self._topics = topics
        self._configs = configs

    def check_topic(
        self, topic: str, counts: tuple[int, int] | None, assignments: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Check a new topic against create.topic.policy.class.name.

        `counts` has the numbers of partitions and of replicas. With None the policy gets `assignments` instead.
        """
        policy = self._topics
        if policy is None:
            return
        partitions, replicas = counts or (None, None)
        given = None if counts is not None else assignments
        request = CreateTopicRequest(topic, partitions, replicas, given, dict(configs))
        _ask(lambda: policy.validate(request), "create.topic.policy.class.name")

    def check_configs(self, resource_type: int, resource_name: str, configs: Mapping[str, str | None]) -> None:
        """Check new configuration values against alter.config.policy.class.name."""
        policy = self._configs
        if policy is None:
            return
        request = AlterConfigRequest(_TYPES[resource_type], resource_name, dict(configs))
        _ask(lambda: policy.validate(request), "alter.config.policy.class.name")


def _ask(validate: Callable[[], object], key: str) -> None:
    try:
        validate()
    except PolicyViolation as violation:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, str(violation)) from None
    except KafkaError:
        raise
    except Exception as error:
        # Do not send the error's text to the client: it may be confidential.
        logger.error("the policy of %s failed", key, exc_info=True)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
