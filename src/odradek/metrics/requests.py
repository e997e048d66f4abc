"""Counts and durations of requests by API (RequestMetrics).

Durations are measured on the event loop. A request is decoded and answered at once (`local`), or parked until an event occurs (`remote`: an
acknowledgement, a high watermark, another node). No queue exists between network and handlers, so RequestQueueTimeMs and
ResponseQueueTimeMs are zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.metrics.histogram import FOLD_AT, Distribution, Histogram


class Measured:
    """Measurements of one API, or of one kind of its requests that Kafka distinguishes. Times are in ms."""

    __slots__ = ("at_once", "errors", "local", "other", "remote", "sizes", "throttled", "total", "versions")

    def __init__(self, other: Measured | None = None) -> None:
        self.other = other or self
        """Measurements of the API's other kind of requests (fetches of followers); the object itself without another kind."""
        self.versions: dict[int, int] = {}
        """Version -> number of requests."""
        self.errors: dict[int, int] = {}
        """Error code -> number of occurrences in responses."""
        self.at_once = Histogram()
        """Local time, equal to the total time, of requests that were answered at once."""
        self.local = Histogram()
        """Local time of parked requests; `remote` and `total` are those of parked requests, too."""
        self.remote = Histogram()
        self.total = Histogram()
        self.throttled = Histogram()
        """Throttle times of requests that a quota delayed."""
        self.sizes = Histogram()

    def answered(self, version: int, size: int, begun: float, now: float) -> None:
        """Record a request of `size` bytes that was answered at once; times in seconds."""
        versions = self.versions
        versions[version] = versions.get(version, 0) + 1
        self.sizes.pending.append(size)
        times = self.at_once.pending
        times.append((now - begun) * 1000.0)
        if len(times) >= FOLD_AT:
            self.at_once.fold(now)
            self.sizes.fold(now)

    def waited(self, version: int, size: int, begun: float, parked: float, now: float) -> None:
        """Record a request that was parked at `parked` and is answered now; times in seconds."""
        self.versions[version] = self.versions.get(version, 0) + 1
        self.sizes.record(size, now)
        self.local.record((parked - begun) * 1000.0, now)
        self.remote.record((now - parked) * 1000.0, now)
        self.total.record((now - begun) * 1000.0, now)

    def throttle(self, milliseconds: float, now: float) -> None:
        """Record the throttle time of a request in milliseconds."""
        self.throttled.record(milliseconds, now)

    @property
    def count(self) -> int:
        return sum(self.versions.values())


class Reading:
    """Distributions of a name in RequestMetrics, merged from one or more kinds of requests."""

    __slots__ = ("local", "nothing", "remote", "sizes", "throttled", "total")

    def __init__(self, parts: Iterable[Measured], now: float) -> None:
        self.local, self.remote, self.total = Distribution(), Distribution(), Distribution()
        self.sizes, self.throttled, self.nothing = Distribution(), Distribution(), Distribution()
        for part in parts:
            at_once, waited, throttled = part.at_once.read(now), part.total.read(now), part.throttled.read(now)
            for whole, some in ((self.local, part.local.read(now)), (self.total, waited)):
                whole.merge(at_once)
                whole.merge(some)
            self.sizes.merge(part.sizes.read(now))
            self.remote.merge(part.remote.read(now))
            self.remote.merge(zeros(at_once.count, at_once.recent))
            self.throttled.merge(throttled)
            every, recent = at_once.count + waited.count, at_once.recent + waited.recent
            self.throttled.merge(zeros(every - throttled.count, max(recent - throttled.recent, 0)))
            self.nothing.merge(zeros(every, recent))


def zeros(count: int, recent: int) -> Distribution:
    """Return a distribution of zeros."""
    made = Distribution()
    made.add_zeros(recent)
    made.count = count
    return made


SORTS: Final[dict[str, tuple[str, str]]] = {
    "Fetch": ("FetchConsumer", "FetchFollower"),
}
"""API -> names of its two kinds of requests; the API's own name has the sum."""


class Requests:
    """Measurements of all APIs of a node, by Kafka's names."""

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        self.by_name: dict[str, Measured] = {}

    def of(self, name: str) -> Measured:
        """Return the measurements of an API, created at the first call."""
        name, other = SORTS.get(name, (name, None))
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Measured(None if other is None else self.of(other))
        return found

    def parts(self) -> dict[str, list[Measured]]:
        """Return each name of RequestMetrics with its measurements."""
        parts = {name: [measured] for name, measured in self.by_name.items()}
        for name, sorts in SORTS.items():
            parts[name] = [self.by_name[each] for each in sorts if each in self.by_name]
        return parts
