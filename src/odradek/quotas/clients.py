"""Usage and throttle times of clients.

All clients that share a quota share a rate. A usage is kept for IDLE_MS (an hour) after its last use. At most MOST_OWNERS usages are kept,
whose names have at most MOST_CHARACTERS characters together, because clients choose their names freely. The least recently used usage is
evicted first; an evicted owner that returns starts with an empty rate.

(org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from odradek.quotas.entities import Level, Owner, QuotaKind, QuotaTable
from odradek.quotas.samples import UNLIMITED, SampledRate, TokenBucket, Window, throttle_ms

IDLE_MS = 3600 * 1000
MOST_OWNERS = 10_000
MOST_CHARACTERS = 4 * 1024 * 1024
NANOS_TO_PERCENT = 100.0 / 1e9
"""Factor from nanoseconds per second to percents of one thread's time."""

M = TypeVar("M", SampledRate, TokenBucket)


class Usage(Generic[M]):
    """Measured usage and limit of one owner."""

    __slots__ = ("limit", "meter", "used_ms")

    def __init__(self, meter: M, limit: float, now_ms: int) -> None:
        self.meter: M = meter
        self.limit = limit
        self.used_ms = now_ms


class Usages(Generic[M]):
    """Usages of all owners of a quota of one kind, least recently used first."""

    __slots__ = ("_by_owner", "_characters", "_make", "table", "window")

    def __init__(self, window: Window, make: type[M]) -> None:
        self.table = QuotaTable()
        self.window = window
        self._make: type[M] = make
        self._by_owner: dict[Owner, Usage[M]] = {}
        self._characters = 0

    def __len__(self) -> int:
        return len(self._by_owner)

    def __iter__(self) -> Iterator[tuple[Owner, Usage[M]]]:
        return iter(self._by_owner.items())

    def of(self, user: str, client_id: str, now_ms: int) -> Usage[M]:
        """Return the usage that this client is charged to."""
        owner = self.table.owner(user, client_id)
        usage = self._by_owner.pop(owner, None)
        if usage is None or now_ms - usage.used_ms > IDLE_MS:
            if usage is None:
                self._characters += _length(owner)
            self._forget(now_ms)
            limit = self.table.limit(owner)
            usage = Usage(self._make(self.window), UNLIMITED if limit is None else limit, now_ms)
        usage.used_ms = now_ms
        self._by_owner[owner] = usage
        return usage

    def settle(self) -> None:
        """Set the limit of each usage from the changed table. Recorded usage is kept."""
        for owner, usage in self._by_owner.items():
            found = self.table.limit(owner)
            usage.limit = UNLIMITED if found is None else found

    def _forget(self, now_ms: int) -> None:
        """Evict idle usages, then the least recently used ones until there is room for another."""
        while self._by_owner:
            owner = next(iter(self._by_owner))
            fits = len(self._by_owner) < MOST_OWNERS and self._characters <= MOST_CHARACTERS
            if fits and now_ms - self._by_owner[owner].used_ms <= IDLE_MS:
                return
            del self._by_owner[owner]
            self._characters -= _length(owner)


def _length(owner: Owner) -> int:
    return len(owner.user) + len(owner.client_id)


class ClientRates:
    """Quotas of one kind: bytes per second, or for REQUEST percents of a thread's time."""

    __slots__ = ("_longest_ms", "_most", "kind", "usages")

    def __init__(self, kind: QuotaKind, window: Window) -> None:
        self.kind = kind
        self.usages: Usages[SampledRate] = Usages(window, SampledRate)
        self._longest_ms = window.size_ms if kind is QuotaKind.REQUEST else None
        self._most = (window.samples - 1) * (window.size_ms // 1000)

    @property
    def enabled(self) -> bool:
        """Return whether any client has a quota. Without a quota `record` and `note` do nothing."""
        return self.usages.table.levels is not Level.NONE

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Record `value` and return the milliseconds that the client has to wait before its next request."""
        if not self.enabled:
            return 0
        usage = self.usages.of(user, client_id, now_ms)
        usage.meter.record(value, now_ms)
        measured = usage.meter.measure(now_ms)
        if measured <= usage.limit:
            return 0
        wait_ms = throttle_ms(measured, usage.limit, usage.meter.span_ms(now_ms))
        return wait_ms if self._longest_ms is None else min(wait_ms, self._longest_ms)

    def note(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Record `value`, which may be negative to take back an earlier value. The client is not throttled."""
        if self.enabled:
            self.usages.of(user, client_id, now_ms).meter.record(value, now_ms)

    def most_at_once(self, user: str, client_id: str, now_ms: int) -> float:
        """Return the size beyond which a single response is throttled whatever was recorded before; infinity without a quota."""
        if not self.enabled:
            return float("inf")
        limit = self.usages.of(user, client_id, now_ms).limit
        return float("inf") if limit == UNLIMITED else limit * self._most
