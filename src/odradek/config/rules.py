"""Rules between keys (KafkaConfig.validateValues) and the names that may be used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig


def check_names(names: Iterable[str]) -> None:
    """ConfigError for the first name that is no key."""
    from odradek.config.broker import BROKER_CONFIG

    for name in names:
        if name not in BROKER_CONFIG:
            raise ConfigError(f"Unknown configuration key {name}")


def check(config: BrokerConfig) -> None:
    """ConfigError, one line naming the key, when keys contradict one another."""
    for name in ("process.roles", "node.id", "controller.listener.names"):
        config.get(name)
