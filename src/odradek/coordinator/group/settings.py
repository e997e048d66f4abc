"""What the group coordinator is configured with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig


class GroupSettings:
    """Current values; times in ms."""

    def __init__(self, config: DynamicBrokerConfig) -> None:
        self._config = config

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
