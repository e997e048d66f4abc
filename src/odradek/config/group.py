"""Configuration of a group (org.apache.kafka.coordinator.group.GroupConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError
from odradek.config.definition import ConfigDef, Key
from odradek.config.keys import group_resources, groups

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

GROUP_CONFIG = ConfigDef(group_resources.KEYS)

GROUP_SYNONYMS: dict[str, str] = {
    key.name: "group." + key.name
    for key in GROUP_CONFIG
    if key.name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}
"""Broker key with the default by group key (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""

_BOUNDED = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms", "consumer.assignment.interval.ms")

_BROKER_KEYS: dict[str, Key[int]] = {key.name: key for key in groups.KEYS}


def check_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError for unknown keys, invalid values, values out of the broker's bounds, or groups that are not served yet."""
    for name in overrides:
        if name not in GROUP_CONFIG:
            raise ConfigError(f"Unknown group config name: {name}")
        if not name.startswith("consumer."):
            raise ConfigError(f"{name} is for {name.partition('.')[0]} groups, which are not served yet")
    values = {name: GROUP_CONFIG[name].parse(text) for name, text in overrides.items()}
    for name in _BOUNDED:
        value = values.setdefault(name, broker[_BROKER_KEYS[GROUP_SYNONYMS[name]]])
        own = name.removeprefix("consumer.")
        for bound, words in (("min", "greater"), ("max", "less")):
            limit = broker[_BROKER_KEYS[f"group.consumer.{bound}.{own}"]]
            if name in overrides and isinstance(value, int) and (value < limit if bound == "min" else value > limit):
                raise ConfigError(f"{name} must be {words} than or equal to group.consumer.{bound}.{own}")
    session, heartbeat = values["consumer.session.timeout.ms"], values["consumer.heartbeat.interval.ms"]
    if isinstance(session, int) and isinstance(heartbeat, int) and session <= heartbeat:
        raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
