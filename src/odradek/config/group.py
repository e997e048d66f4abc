"""Configuration of a group (org.apache.kafka.coordinator.group.GroupConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ConfigError
from odradek.config.definition import Config, ConfigDef, Key
from odradek.config.keys import group_resources
from odradek.config.keys.group_resources import CONSUMER_ASSIGNMENT_INTERVAL_MS, CONSUMER_HEARTBEAT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS
from odradek.config.keys.groups import (
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
)

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

GROUP_CONFIG = ConfigDef(group_resources.KEYS)

GROUP_SYNONYMS: dict[str, str] = {
    key.name: "group." + key.name
    for key in GROUP_CONFIG
    if key.name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}
"""Broker key with the default by group key (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""


class BrokerKeys(NamedTuple):
    """Broker keys with the default of a group's key, and with the bounds of its value."""

    default: Key[int]
    least: Key[int]
    most: Key[int]


CONSUMER_KEYS: dict[Key[int], BrokerKeys] = {
    CONSUMER_HEARTBEAT_INTERVAL_MS: BrokerKeys(
        GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS
    ),
    CONSUMER_SESSION_TIMEOUT_MS: BrokerKeys(
        GROUP_CONSUMER_SESSION_TIMEOUT_MS, GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS
    ),
    CONSUMER_ASSIGNMENT_INTERVAL_MS: BrokerKeys(
        GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS
    ),
}
"""Keys of consumer groups."""


def check_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError for unknown keys, invalid values, values out of the broker's bounds, or groups that are not supported yet."""
    for name in overrides:
        if name not in GROUP_CONFIG:
            raise ConfigError(f"Unknown group config name: {name}")
        if not name.startswith("consumer."):
            raise ConfigError(f"{name} is a setting of {name.partition('.')[0]} groups, which are not supported yet")
    own = Config(GROUP_CONFIG, GROUP_CONFIG.parse(overrides))
    for key, (_, least, most) in CONSUMER_KEYS.items():
        if own.is_set(key) and own[key] < broker[least]:
            raise ConfigError(f"{key} must be greater than or equal to {least}")
        if own.is_set(key) and own[key] > broker[most]:
            raise ConfigError(f"{key} must be less than or equal to {most}")
    values = {key: own[key] if own.is_set(key) else broker[keys.default] for key, keys in CONSUMER_KEYS.items()}
    if values[CONSUMER_SESSION_TIMEOUT_MS] <= values[CONSUMER_HEARTBEAT_INTERVAL_MS]:
        raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
