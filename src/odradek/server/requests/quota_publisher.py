"""Publisher of the metadata's quotas to the parts that enforce them (kafka.server.metadata.ClientQuotaMetadataManager).

`Throttling` is imported and made with the first client quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.handlers.services import Services
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage
    from odradek.server.requests.connection_rates import ConnectionLimits
    from odradek.server.requests.dispatch import Dispatcher
    from odradek.server.requests.throttling import Throttling
    from odradek.server.upkeep.jobs import Jobs

    Entities = Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]]


_KEPT_S = 3600.0
"""Seconds for which the usage of clients is remembered after the last quota is removed."""


class QuotaPublisher:
    """Publisher that follows the metadata from the beginning: quotas apply before clients are served."""

    def __init__(self, services: Services, dispatcher: Dispatcher, limits: ConnectionLimits, jobs: Jobs) -> None:
        self._services = services
        self._dispatcher = dispatcher
        self._limits = limits
        self._jobs = jobs
        self._known: Entities = {}
        self._throttling: Throttling | None = None
        self._drop_at: float | None = None

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        entities = image.client_quotas.entities
        services = self._services
        if self._drop_at is not None and services.clock.monotonic() >= self._drop_at:
            self._throttling = self._drop_at = None
        if entities is self._known:
            return
        changes = _changes(self._known, entities)
        self._known = entities
        if not changes:
            return
        self._limits.addresses(changes)
        if self._throttling is None:
            from odradek.server.requests.throttling import Throttling

            self._throttling = Throttling(services.config, services.clock)
        self._throttling.apply(changes)
        enabled = self._throttling.enabled
        self._drop_at = None if enabled else services.clock.monotonic() + _KEPT_S
        self._jobs.throttling = self._dispatcher.throttling = self._throttling if enabled else None


def _changes(before: Entities, after: Entities) -> dict[tuple[tuple[str, str | None], ...], dict[str, float | None]]:
    """Return entity -> key -> new quota, None for a removed quota."""
    changes: dict[tuple[tuple[str, str | None], ...], dict[str, float | None]] = {}
    for entity, quotas in after.items():
        old = before.get(entity, {})
        if quotas is not old:
            changed: dict[str, float | None] = {key: value for key, value in quotas.items() if old.get(key) != value}
            changed.update(dict.fromkeys(old.keys() - quotas.keys()))
            if changed:
                changes[entity] = changed
    for entity, quotas in before.items():
        if entity not in after:
            changes[entity] = dict.fromkeys(quotas)
    return changes
