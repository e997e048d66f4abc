"""Settings and counters of the group coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.assignment.registry import ASSIGNORS, CLASS_NAMES
from odradek.assignment.spec import Assignor
from odradek.config.definition import Key
from odradek.config.group import CONSUMER_KEYS
from odradek.config.keys.group_resources import CONSUMER_ASSIGNMENT_INTERVAL_MS, CONSUMER_HEARTBEAT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS
from odradek.config.keys.groups import (
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_MIGRATION_POLICY,
    GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS,
    GROUP_INITIAL_REBALANCE_DELAY_MS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_MAX_SIZE,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    OFFSET_METADATA_MAX_BYTES,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    OFFSETS_RETENTION_MINUTES,
)

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig


class MigrationPolicy(NamedTuple):
    """Permission to change the protocol of a group with members, by direction."""

    upgrade: bool
    downgrade: bool


_POLICIES = {
    "bidirectional": MigrationPolicy(upgrade=True, downgrade=True),
    "upgrade": MigrationPolicy(upgrade=True, downgrade=False),
    "downgrade": MigrationPolicy(upgrade=False, downgrade=True),
    "disabled": MigrationPolicy(upgrade=False, downgrade=False),
}


class GroupCounts:
    """Counters of the coordinator's metrics, over all shards since the start of the broker."""

    __slots__ = ("classic_rebalances", "commits", "consumer_rebalances", "deletions", "expirations")

    def __init__(self) -> None:
        self.commits = 0
        """Committed offsets. Like the other counters, it counts decided operations, whether or not their records are replicated in time."""
        self.deletions = 0
        """Offsets deleted by request."""
        self.expirations = 0
        """Expired offsets."""
        self.classic_rebalances = 0
        """Generations with members that classic groups began."""
        self.consumer_rebalances = 0
        """Epochs that consumer groups began."""


class GroupSettings:
    """Current values of the settings; times in milliseconds. `counts` are the counters of all shards."""

    def __init__(self, config: DynamicBrokerConfig) -> None:
        self._config = config
        self.counts = GroupCounts()

    @property
    def initial_rebalance_delay_ms(self) -> int:
        return self._config[GROUP_INITIAL_REBALANCE_DELAY_MS]

    @property
    def min_session_timeout_ms(self) -> int:
        return self._config[GROUP_MIN_SESSION_TIMEOUT_MS]

    @property
    def max_session_timeout_ms(self) -> int:
        return self._config[GROUP_MAX_SESSION_TIMEOUT_MS]

    @property
    def max_size(self) -> int:
        return self._config[GROUP_MAX_SIZE]

    @property
    def offset_metadata_max_bytes(self) -> int:
        return self._config[OFFSET_METADATA_MAX_BYTES]

    @property
    def offsets_retention_ms(self) -> int:
        return self._config[OFFSETS_RETENTION_MINUTES] * 60_000

    @property
    def retention_check_interval_ms(self) -> int:
        return self._config[OFFSETS_RETENTION_CHECK_INTERVAL_MS]

    # -- consumer groups -----------------------------------------------------------------------------------------------------------

    @property
    def consumer_max_size(self) -> int:
        return self._config[GROUP_CONSUMER_MAX_SIZE]

    @property
    def consumer_assignors(self) -> dict[str, Assignor]:
        """Return the enabled assignors by name; the first is the default."""
        names = [CLASS_NAMES.get(name, name) for name in self._config[GROUP_CONSUMER_ASSIGNORS]]
        return {name: ASSIGNORS[name] for name in names}

    @property
    def migration_policy(self) -> MigrationPolicy:
        return _POLICIES[self._config[GROUP_CONSUMER_MIGRATION_POLICY].lower()]

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._config[GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS]

    def consumer_session_timeout_ms(self, overrides: Mapping[str, str]) -> int:
        """Return the session timeout; `overrides` is the group's dynamic configuration."""
        return self._of_group(overrides, CONSUMER_SESSION_TIMEOUT_MS)

    def consumer_heartbeat_interval_ms(self, overrides: Mapping[str, str]) -> int:
        return self._of_group(overrides, CONSUMER_HEARTBEAT_INTERVAL_MS)

    def consumer_assignment_interval_ms(self, overrides: Mapping[str, str]) -> int:
        return self._of_group(overrides, CONSUMER_ASSIGNMENT_INTERVAL_MS)

    def _of_group(self, overrides: Mapping[str, str], key: Key[int]) -> int:
        """Return the group's value, limited to the broker's current bounds; without a group value the broker's value."""
        default, least, most = CONSUMER_KEYS[key]
        own = overrides.get(key.name)
        if own is None:
            return self._config[default]
        return min(max(int(own), self._config[least]), self._config[most])
