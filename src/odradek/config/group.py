"""A group's configuration (org.apache.kafka.coordinator.group.GroupConfig)."""

from __future__ import annotations

from odradek.config.definition import ConfigDef
from odradek.config.keys import group_resources

GROUP_CONFIG = ConfigDef(group_resources.KEYS)

GROUP_SYNONYMS: dict[str, str] = {
    key.name: "group." + key.name
    for key in GROUP_CONFIG
    if key.name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}
"""Group key -> the broker key that holds its default (GroupConfig.ALL_GROUP_CONFIG_SYNONYMS)."""
