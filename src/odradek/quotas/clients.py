"""What clients have used, and how long they have to wait (org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager).

Whoever shares a quota has one rate. It is kept for an hour after it was last used, and at most `MOST_OWNERS` of them are, with names no
longer than `MOST_CHARACTERS` together: clients make up names as they like. The one that was used least recently goes, and begins anew when
it comes back.
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
"""Of a second of one thread."""

M = TypeVar("M", SampledRate, TokenBucket)


class Usage(Generic[M]):
    """What one owner has used, and may use."""

    __slots__ = ("limit", "meter", "used_ms")

    def __init__(self, meter: M, limit: float, now_ms: int) -> None:
        self.meter: M = meter
        self.limit = limit
        self.used_ms = now_ms


class Usages(Generic[M]):
    """The usage of everybody who shares a quota of one kind, the least recently used first."""

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
        """The usage that counts for this client."""
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
        """The table has changed: everybody has the limit that it says now, and what was used stays known."""
        for owner, usage in self._by_owner.items():
            found = self.table.limit(owner)
            usage.limit = UNLIMITED if found is None else found

    def _forget(self, now_ms: int) -> None:
        """Makes room for another."""
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
    """The quotas of one kind: bytes a second, or with REQUEST percents of a thread's time."""

    __slots__ = ("_longest_ms", "_most", "kind", "usages")

    def __init__(self, kind: QuotaKind, window: Window) -> None:
        self.kind = kind
        self.usages: Usages[SampledRate] = Usages(window, SampledRate)
        self._longest_ms = window.size_ms if kind is QuotaKind.REQUEST else None
        self._most = (window.samples - 1) * (window.size_ms // 1000)

    @property
    def enabled(self) -> bool:
        """Whether anybody has a quota; else nothing need be recorded."""
        return self.usages.table.levels is not Level.NONE

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Counts `value`; how many milliseconds the client has to wait before its next request."""
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
        """Counts `value`, or takes back a negative one, and asks nobody to wait."""
        if self.enabled:
            self.usages.of(user, client_id, now_ms).meter.record(value, now_ms)

    def most_at_once(self, user: str, client_id: str, now_ms: int) -> float:
        """More than this in one answer is throttled whatever came before; infinity without a quota."""
        if not self.enabled:
            return float("inf")
        limit = self.usages.of(user, client_id, now_ms).limit
        return float("inf") if limit == UNLIMITED else limit * self._most
