"""What the group coordinator is configured with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.assignment.registry import ASSIGNORS, CLASS_NAMES
from odradek.assignment.spec import Assignor

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig


class MigrationPolicy(NamedTuple):
    """Which groups may change their protocol with members in them."""

    upgrade: bool
    downgrade: bool


_POLICIES = {
    "bidirectional": MigrationPolicy(upgrade=True, downgrade=True),
    "upgrade": MigrationPolicy(upgrade=True, downgrade=False),
    "downgrade": MigrationPolicy(upgrade=False, downgrade=True),
    "disabled": MigrationPolicy(upgrade=False, downgrade=False),
}


class GroupCounts:
    """What the coordinator counts, for its metrics: on all of its shards, since the broker started."""

    __slots__ = ("classic_rebalances", "commits", "consumer_rebalances", "deletions", "expirations")

    def __init__(self) -> None:
        self.commits = 0
        """Offsets that were committed, as the others: decided here, whether their records are replicated in time or not."""
        self.deletions = 0
        """Offsets that were deleted by request."""
        self.expirations = 0
        """Offsets that expired."""
        self.classic_rebalances = 0
        """Generations of classic groups that began with members."""
        self.consumer_rebalances = 0
        """Epochs of consumer groups that began."""


class GroupSettings:
    """Current values; times in ms. With them goes what all shards count together."""

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
        """By name; the first is the default."""
        names = [CLASS_NAMES.get(name, name) for name in self._config.items("group.consumer.assignors")]
        return {name: ASSIGNORS[name] for name in names}

    @property
    def migration_policy(self) -> MigrationPolicy:
        return _POLICIES[self._config.text("group.consumer.migration.policy").lower()]

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._config.integer("group.consumer.regex.refresh.interval.ms")

    def consumer_session_timeout_ms(self, overrides: Mapping[str, str]) -> int:
        """`overrides` is what is set on the group."""
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
        """The group's own value within the broker's bounds, which may have changed since it was set; else the broker's."""
        if own is None:
            return self._config.integer(default)
        return min(max(int(own), self._config.integer(least)), self._config.integer(most))
