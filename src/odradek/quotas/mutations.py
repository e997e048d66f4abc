"""Quota of partition creations and deletions through the controller (KIP-599).

Each created or deleted partition takes one token of a bucket. A `strict` request is accepted while the bucket has no debt. The topic that
overdraws the bucket is still accepted; each later topic fails with THROTTLING_QUOTA_EXCEEDED until the debt is repaid. Older request
versions do not know that error: these requests are served, and their client is throttled.

(org.apache.kafka.server.quota.ControllerMutationQuotaManager, StrictControllerMutationQuota, PermissiveControllerMutationQuota)
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.quotas.clients import Usage, Usages
from odradek.quotas.entities import Level
from odradek.quotas.samples import TokenBucket, Window, rounded


class MutationQuota:
    """Mutation quota as one request sees it."""

    __slots__ = ("_strict", "_until_ms", "_usage")

    def __init__(self, usage: Usage[TokenBucket], *, strict: bool) -> None:
        self._usage = usage
        self._strict = strict
        self._until_ms = 0

    def record(self, partitions: int, now_ms: int) -> None:
        """Take a token for each partition to be created or deleted.

        Raises KafkaError with THROTTLING_QUOTA_EXCEEDED, and takes no token, when the quota is strict and the bucket is in debt.
        """
        usage = self._usage
        if self._strict and self._owes(now_ms):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        usage.meter.record(partitions, usage.limit, now_ms)
        if not self._strict:
            self._owes(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the debt that `record` last found is repaid; 0 without a debt."""
        return max(0, self._until_ms - now_ms)

    def _owes(self, now_ms: int) -> bool:
        tokens = self._usage.meter.measure(self._usage.limit, now_ms)
        if tokens >= 0:
            return False
        self._until_ms = now_ms + rounded(-tokens / self._usage.limit * 1000)
        return True


class MutationRates:
    """Mutation quotas of all clients."""

    __slots__ = ("usages",)

    def __init__(self, window: Window) -> None:
        self.usages: Usages[TokenBucket] = Usages(window, TokenBucket)

    @property
    def enabled(self) -> bool:
        return self.usages.table.levels is not Level.NONE

    def quota_for(self, user: str, client_id: str, now_ms: int, *, strict: bool) -> MutationQuota | None:
        """Return the quota for a request of this client, or None when there are no mutation quotas."""
        return MutationQuota(self.usages.of(user, client_id, now_ms), strict=strict) if self.enabled else None
