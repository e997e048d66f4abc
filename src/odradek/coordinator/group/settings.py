"""Settings and counters of the group coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.assignment.registry import ASSIGNORS, CLASS_NAMES
from odradek.assignment.spec import Assignor

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
        return self._config.integer("group.initial.rebalance.delay.ms")

    @property
    def min_session_timeout_ms(self) -> int:
        return self._config.integer("group.min.session.timeout.ms")

    @property
    def max_session_timeout_ms(self) -> int:
        return self._config.integer("group.max.session.timeout.ms")

    @property
    def max_size(self) -> int:
        return self._config.integer("group.max.size")

    @property
    def offset_metadata_max_bytes(self) -> int:
        return self._config.integer("offset.metadata.max.bytes")

    @property
    def offsets_retention_ms(self) -> int:
        return self._config.integer("offsets.retention.minutes") * 60_000

    @property
    def retention_check_interval_ms(self) -> int:
        return self._config.integer("offsets.retention.check.interval.ms")

    # -- consumer groups -----------------------------------------------------------------------------------------------------------

    @property
    def consumer_max_size(self) -> int:
        return self._config.integer("group.consumer.max.size")

    @property
    def consumer_assignors(self) -> dict[str, Assignor]:
        """Return the enabled assignors by name; the first is the default."""
        names = [CLASS_NAMES.get(name, name) for name in self._config.items("group.consumer.assignors")]
        return {name: ASSIGNORS[name] for name in names}

    @property
    def migration_policy(self) -> MigrationPolicy:
        return _POLICIES[self._config.text("group.consumer.migration.policy").lower()]

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._config.integer("group.consumer.regex.refresh.interval.ms")

    def consumer_session_timeout_ms(self, overrides: Mapping[str, str]) -> int:
        """Return the session timeout; `overrides` is the group's dynamic configuration."""
        return self._of_group(
            overrides.get("consumer.session.timeout.ms"),
            "group.consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        )

    def consumer_heartbeat_interval_ms(self, overrides: Mapping[str, str]) -> int:
        return self._of_group(
            overrides.get("consumer.heartbeat.interval.ms"),
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        )

    def consumer_assignment_interval_ms(self, overrides: Mapping[str, str]) -> int:
        return self._of_group(
            overrides.get("consumer.assignment.interval.ms"),
            "group.consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        )

    def _of_group(self, own: str | None, default: str, least: str, most: str) -> int:
        """Return the group's value, limited to the broker's current bounds; without a group value the broker's value."""
        if own is None:
            return self._config.integer(default)
        return min(max(int(own), self._config.integer(least)), self._config.integer(most))
