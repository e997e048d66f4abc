"""Policies: rules of an operator about which topics are created and which configurations are set (org.apache.kafka.server.policy, KIP-108,
KIP-133).

A policy is a class, named in create.topic.policy.class.name or alter.config.policy.class.name by an import path (`package.module:Class`) or
by an entry point of the group `odradek.policies`, whose name may be that of a Java class. It is made without arguments.

    class AtMostTwelve(CreateTopicPolicy):
        def validate(self, request: CreateTopicRequest) -> None:
            if (request.num_partitions or 0) > 12:
                raise PolicyViolation(f"{request.topic}: no topic has more than 12 partitions here")

The active controller asks it while it serves nobody else, on the loop that also moves records: an answer has to be a matter of
microseconds, from what the policy has in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["AlterConfigPolicy", "AlterConfigRequest", "CreateTopicPolicy", "CreateTopicRequest", "PolicyViolation"]


class PolicyViolation(Exception):
    """The request breaks the policy: it is refused with POLICY_VIOLATION and the text, which its client gets to read."""


class CreateTopicRequest(NamedTuple):
    """A topic that is to be created (CreateTopicPolicy.RequestMetadata)."""

    topic: str
    num_partitions: int | None
    """None where the request says who has the replicas; the default of the cluster where the request leaves the number open."""
    replication_factor: int | None
    """As `num_partitions`."""
    replicas_assignments: Mapping[int, Sequence[int]] | None
    """Partition -> brokers, the preferred leader first, where the request says so; else None."""
    configs: Mapping[str, str]
    """Those that the request gives; no defaults."""


class AlterConfigRequest(NamedTuple):
    """A change of the configuration of one resource (AlterConfigPolicy.RequestMetadata)."""

    resource_type: str
    """TOPIC, BROKER or GROUP."""
    resource_name: str
    """Empty for all brokers."""
    configs: Mapping[str, str | None]
    """What changes, with the value that the key is to have; None for one that goes back to its default because the request says so. What
    AlterConfigs takes away by leaving it out is not there."""


class _Policy:
    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, before anything is asked, with the configuration of the node as text, its file's keys for the policy among them:
        those that begin with `create.topic.policy.` or `alter.config.policy.`. An exception keeps the node from starting.
        """

    def close(self) -> None:
        """Called when the node stops."""


class CreateTopicPolicy(_Policy):
    """Asked of each topic that is to be created, by whomever, also where the request only validates; not for more partitions of one that
    is there.
    """

    def validate(self, request: CreateTopicRequest) -> None:
        """PolicyViolation refuses the topic. Any other exception does so with UNKNOWN_SERVER_ERROR and a traceback in the log."""
        raise NotImplementedError


class AlterConfigPolicy(_Policy):
    """Asked of each resource whose configuration is to change, and of configurations that topics are created with, also where the request
    only validates.
    """

    def validate(self, request: AlterConfigRequest) -> None:
        """As `CreateTopicPolicy.validate`."""
        raise NotImplementedError
