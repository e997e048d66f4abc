"""Configuration keys of consumer groups: checks of their combinations, and the membership that they describe."""

from __future__ import annotations

import base64
from typing import Final

from odradek.base.errors import ConfigError
from odradek.base.ids import random_uuid
from odradek.client.assignors.registry import ASSIGNORS, Assignor
from odradek.client.cluster import Cluster
from odradek.client.config import ClientConfig
from odradek.client.core.membership import GroupSettings, Membership
from odradek.client.core.membership_classic import ClassicMembership
from odradek.client.core.membership_consumer import ConsumerMembership

_CLASSIC_ONLY: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")


def check_group_settings(config: ClientConfig) -> None:
    """Raise ConfigError for group keys that contradict one another (ConsumerConfig.postProcessParsedConfig)."""
    group_id = optional_text(config, "group.id")
    if group_id is not None and not group_id.strip():
        raise ConfigError("Invalid value for configuration group.id: it must not be empty")
    if optional_text(config, "group.instance.id") == "":
        raise ConfigError("Invalid value for configuration group.instance.id: it must not be empty")
    if group_id is None and config.was_given("enable.auto.commit") and config.flag("enable.auto.commit"):
        raise ConfigError("enable.auto.commit=true needs a group.id")
    if uses_consumer_protocol(config):
        given = [key for key in _CLASSIC_ONLY if config.was_given(key)]
        if given:
            raise ConfigError(f"{given[0]} cannot be set with group.protocol=consumer: the coordinator decides it")
        return
    if optional_text(config, "group.remote.assignor") is not None:
        raise ConfigError("group.remote.assignor needs group.protocol=consumer")
    chosen_assignors(config)
    if config.integer("heartbeat.interval.ms") >= config.integer("session.timeout.ms"):
        raise ConfigError("heartbeat.interval.ms must be less than session.timeout.ms")


def optional_text(config: ClientConfig, key: str) -> str | None:
    """Return the value of a textual key; None if it is unset."""
    value = config.get(key)
    return None if value is None else str(value)


def uses_consumer_protocol(config: ClientConfig) -> bool:
    """Return whether the group uses the consumer protocol (KIP-848)."""
    return config.text("group.protocol").lower() == "consumer"


def chosen_assignors(config: ClientConfig) -> list[Assignor]:
    """Return the assignors of partition.assignment.strategy in order.

    Raises ConfigError for an unknown or repeated name, or an empty list.
    """
    names = config.get("partition.assignment.strategy")
    assert isinstance(names, list)
    by_class = {assignor.java_class: assignor for assignor in ASSIGNORS.values()}
    found: list[Assignor] = []
    for name in names:
        assignor = ASSIGNORS.get(str(name)) or by_class.get(str(name))
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
    group_id = optional_text(config, "group.id")
    assert group_id is not None
    settings = GroupSettings(
        group_id=group_id,
        instance_id=optional_text(config, "group.instance.id"),
        rack=config.text("client.rack") or None,
        session_timeout_ms=config.integer("session.timeout.ms"),
        heartbeat_interval_ms=config.integer("heartbeat.interval.ms"),
        max_poll_interval_ms=config.integer("max.poll.interval.ms"),
        request_timeout_ms=config.integer("request.timeout.ms"),
    )
    if not uses_consumer_protocol(config):
        return ClassicMembership(settings, chosen_assignors(config), cluster.backoff)
    member_id = base64.urlsafe_b64encode(random_uuid(cluster.rng).bytes).rstrip(b"=").decode()
    return ConsumerMembership(settings, member_id, optional_text(config, "group.remote.assignor"), cluster.backoff)
