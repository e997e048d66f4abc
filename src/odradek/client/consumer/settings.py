"""Configuration keys of consumer groups: checks of their combinations, and the membership that they describe."""

from __future__ import annotations

import base64
from typing import Final

from odradek.base.errors import ConfigError
from odradek.base.ids import random_uuid
from odradek.client.assignors.registry import ASSIGNORS, Assignor
from odradek.client.core.membership import GroupSettings, Membership
from odradek.client.core.membership_classic import ClassicMembership
from odradek.client.core.membership_consumer import ConsumerMembership
from odradek.client.network.cluster import Cluster
from odradek.client.settings.common_keys import REQUEST_TIMEOUT_MS
from odradek.client.settings.config import ClientConfig
from odradek.client.settings.consumer_keys import (
    CLIENT_RACK,
    ENABLE_AUTO_COMMIT,
    GROUP_ID,
    GROUP_INSTANCE_ID,
    GROUP_PROTOCOL,
    GROUP_REMOTE_ASSIGNOR,
    HEARTBEAT_INTERVAL_MS,
    MAX_POLL_INTERVAL_MS,
    PARTITION_ASSIGNMENT_STRATEGY,
    SESSION_TIMEOUT_MS,
)

_CLASSIC_ONLY: Final = (PARTITION_ASSIGNMENT_STRATEGY, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS)


def check_group_settings(config: ClientConfig) -> None:
    """Raise ConfigError for group keys that contradict one another (ConsumerConfig.postProcessParsedConfig)."""
    group_id = config[GROUP_ID]
    if group_id is not None and not group_id.strip():
        raise ConfigError("Invalid value for configuration group.id: it must not be empty")
    if config[GROUP_INSTANCE_ID] == "":
        raise ConfigError("Invalid value for configuration group.instance.id: it must not be empty")
    if group_id is None and config.is_set(ENABLE_AUTO_COMMIT) and config[ENABLE_AUTO_COMMIT]:
        raise ConfigError("enable.auto.commit=true needs a group.id")
    if uses_consumer_protocol(config):
        given = [key for key in _CLASSIC_ONLY if config.is_set(key)]
        if given:
            raise ConfigError(f"{given[0]} cannot be set with group.protocol=consumer: the coordinator decides it")
        return
    if config[GROUP_REMOTE_ASSIGNOR] is not None:
        raise ConfigError("group.remote.assignor needs group.protocol=consumer")
    chosen_assignors(config)
    if config[HEARTBEAT_INTERVAL_MS] >= config[SESSION_TIMEOUT_MS]:
        raise ConfigError("heartbeat.interval.ms must be less than session.timeout.ms")


def uses_consumer_protocol(config: ClientConfig) -> bool:
    """Return whether the group uses the consumer protocol (KIP-848)."""
    return config[GROUP_PROTOCOL].lower() == "consumer"


def chosen_assignors(config: ClientConfig) -> list[Assignor]:
    """Return the assignors of partition.assignment.strategy in order.

    Raises ConfigError for an unknown or repeated name, or an empty list.
    """
    names = config[PARTITION_ASSIGNMENT_STRATEGY]
    by_class = {assignor.java_class: assignor for assignor in ASSIGNORS.values()}
    found: list[Assignor] = []
    for name in names:
        assignor = ASSIGNORS.get(name) or by_class.get(name)
        if assignor is None:
            raise ConfigError(
                f"Invalid value {name} for configuration partition.assignment.strategy: the assignors are {', '.join(ASSIGNORS)}"
            )
        if assignor in found:
            raise ConfigError(f"Invalid value for configuration partition.assignment.strategy: {name} is named twice")
        found.append(assignor)
    if not found:
        raise ConfigError("Invalid value for configuration partition.assignment.strategy: it must name an assignor")
    return found


def new_membership(config: ClientConfig, cluster: Cluster) -> Membership:
    """Return a membership of group.id that has not joined yet."""
    group_id = config[GROUP_ID]
    assert group_id is not None
    settings = GroupSettings(
        group_id=group_id,
        instance_id=config[GROUP_INSTANCE_ID],
        rack=config[CLIENT_RACK] or None,
        session_timeout_ms=config[SESSION_TIMEOUT_MS],
        heartbeat_interval_ms=config[HEARTBEAT_INTERVAL_MS],
        max_poll_interval_ms=config[MAX_POLL_INTERVAL_MS],
        request_timeout_ms=config[REQUEST_TIMEOUT_MS],
    )
    if not uses_consumer_protocol(config):
        return ClassicMembership(settings, chosen_assignors(config), cluster.backoff)
    member_id = base64.urlsafe_b64encode(random_uuid(cluster.rng).bytes).rstrip(b"=").decode()
    return ConsumerMembership(settings, member_id, config[GROUP_REMOTE_ASSIGNOR], cluster.backoff)
