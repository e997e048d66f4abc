"""What clients change through the controller: partitions that are created and deleted (KIP-599).

A bucket of tokens, one for each partition. A request that may be refused (`strict`) is served while no token is owed, and may then owe as
many as it takes; after that each topic fails with THROTTLING_QUOTA_EXCEEDED until they are paid back. Older requests do not know the error:
they are served, and their client waits.

(org.apache.kafka.server.quota.ControllerMutationQuotaManager, StrictControllerMutationQuota, PermissiveControllerMutationQuota)
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.quotas.clients import Usage, Usages
from odradek.quotas.entities import Level
from odradek.quotas.samples import TokenBucket, Window, rounded


class MutationQuota:
    """The quota of the client of one request."""

    __slots__ = ("_strict", "_until_ms", "_usage")

    def __init__(self, usage: Usage[TokenBucket], *, strict: bool) -> None:
        self._usage = usage
        self._strict = strict
        self._until_ms = 0

    def record(self, partitions: int, now_ms: int) -> None:
        """Counts partitions that are to be created or deleted; THROTTLING_QUOTA_EXCEEDED, and nothing counted, where they may not be."""
        usage = self._usage
        if self._strict and self._owes(now_ms):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        usage.meter.record(partitions, usage.limit, now_ms)
        if not self._strict:
            self._owes(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """How long the client has to wait before its next request, counted from when it was first owed."""
        return max(0, self._until_ms - now_ms)

    def _owes(self, now_ms: int) -> bool:
        tokens = self._usage.meter.measure(self._usage.limit, now_ms)
        if tokens >= 0:
            return False
        self._until_ms = now_ms + rounded(-tokens / self._usage.limit * 1000)
        return True


class MutationRates:
    """The quotas of everybody."""

    __slots__ = ("usages",)

    def __init__(self, window: Window) -> None:
        self.usages: Usages[TokenBucket] = Usages(window, TokenBucket)

    @property
    def enabled(self) -> bool:
        return self.usages.table.levels is not Level.NONE

    def quota_for(self, user: str, client_id: str, now_ms: int, *, strict: bool) -> MutationQuota | None:
        """None while nobody has such a quota."""
        return MutationQuota(self.usages.of(user, client_id, now_ms), strict=strict) if self.enabled else None
