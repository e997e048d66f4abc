"""Policies: an operator's rules for new topics and for configurations (org.apache.kafka.server.policy, KIP-108, KIP-133).

A policy is a class, named in create.topic.policy.class.name or alter.config.policy.class.name. The name is an import path
(`package.module:Class`), or an entry point of the group `odradek.policies`, which may have the name of a Java class. The class is called
without arguments.

    class AtMostTwelve(CreateTopicPolicy):
        def validate(self, request: CreateTopicRequest) -> None:
            if (request.num_partitions or 0) > 12:
                raise PolicyViolation(f"{request.topic}: no topic has more than 12 partitions here")

The active controller calls `validate` on the event loop, which also moves records, and serves no other request during the call. Therefore a
policy has to decide within microseconds, from data in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["AlterConfigPolicy", "AlterConfigRequest", "CreateTopicPolicy", "CreateTopicRequest", "PolicyViolation"]


class PolicyViolation(Exception):
    """Error of a request that breaks the policy: the client gets POLICY_VIOLATION and the text."""


class CreateTopicRequest(NamedTuple):
    """Topic to be created (CreateTopicPolicy.RequestMetadata)."""

    topic: str
    num_partitions: int | None
    """Number of partitions; the cluster's default if the request leaves the number open. None if the request assigns the replicas."""
    replication_factor: int | None
    """Replication factor; the cluster's default if the request leaves it open. None if the request assigns the replicas."""
    replicas_assignments: Mapping[int, Sequence[int]] | None
    """Partition -> brokers, the preferred leader first, if the request assigns the replicas; else None."""
    configs: Mapping[str, str]
    """Configurations of the request, without defaults."""


class AlterConfigRequest(NamedTuple):
    """Change of the configuration of one resource (AlterConfigPolicy.RequestMetadata)."""

    resource_type: str
    """TOPIC, BROKER or GROUP."""
    resource_name: str
    """Name of the resource; empty for all brokers."""
    configs: Mapping[str, str | None]
    """Changed keys with their new values; None for a key that the request resets to its default.

    A key that AlterConfigs removes by omission is not contained.
    """


class _Policy:
    def configure(self, configs: Mapping[str, str]) -> None:
        """Configure the policy; called once before the first `validate`. An exception keeps the node from starting.

        `configs` is the node's configuration as text. It contains the keys of its file for the policy, which begin with
        `create.topic.policy.` or `alter.config.policy.`.
        """

    def close(self) -> None:
        """Close the policy; called when the node stops."""


class CreateTopicPolicy(_Policy):
    """Policy that checks each topic to be created, also for requests that only validate, and for every client.

    Additional partitions of existing topics are not checked.
    """

    def validate(self, request: CreateTopicRequest) -> None:
        """Raise PolicyViolation to refuse the topic. Any other exception refuses it with UNKNOWN_SERVER_ERROR and is logged with a
        traceback.
        """
        raise NotImplementedError


class AlterConfigPolicy(_Policy):
    """Policy that checks each changed configuration of a resource, and the configurations of new topics.

    Requests that only validate are checked, too.
    """

    def validate(self, request: AlterConfigRequest) -> None:
        """Raise PolicyViolation to refuse the change. Other exceptions act as in `CreateTopicPolicy.validate`."""
        raise NotImplementedError
