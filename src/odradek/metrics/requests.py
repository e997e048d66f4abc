"""How often each API is asked, and how long it takes (RequestMetrics).

Times are those of one event loop: a request is decoded, answered and its answer handed to the socket in one go (`local`), or it is parked
until something else has happened (`remote`: an acknowledgement, a high watermark, another node). Nothing waits in a queue between the
network and the handlers, so that RequestQueueTimeMs and ResponseQueueTimeMs are zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.metrics.histogram import FOLD_AT, Distribution, Histogram


class Measured:
    """One API, or one of the sorts of its requests that Kafka tells apart. Times are ms."""

    __slots__ = ("at_once", "errors", "local", "other", "remote", "sizes", "throttled", "total", "versions")

    def __init__(self, other: Measured | None = None) -> None:
        self.other = other or self
        """Where the API's other sort of requests is counted: fetches of followers, verifications of transactions."""
        self.versions: dict[int, int] = {}
        """Version -> requests."""
        self.errors: dict[int, int] = {}
        """Error code -> how often answers carried it."""
        self.at_once = Histogram()
        """Requests that were answered without waiting: their local time, and their total."""
        self.local = Histogram()
        """The rest of them, like `remote` and `total`: those that were parked."""
        self.remote = Histogram()
        self.total = Histogram()
        self.throttled = Histogram()
        """Only those that a quota held back."""
        self.sizes = Histogram()

    def answered(self, version: int, size: int, begun: float, now: float) -> None:
        """A request of `size` bytes was answered at once; times in seconds."""
        versions = self.versions
        versions[version] = versions.get(version, 0) + 1
        self.sizes.pending.append(size)
        times = self.at_once.pending
        times.append((now - begun) * 1000.0)
        if len(times) >= FOLD_AT:
            self.at_once.fold(now)
            self.sizes.fold(now)

    def waited(self, version: int, size: int, begun: float, parked: float, now: float) -> None:
        """A request that began to wait at `parked` is answered."""
        self.versions[version] = self.versions.get(version, 0) + 1
        self.sizes.record(size, now)
        self.local.record((parked - begun) * 1000.0, now)
        self.remote.record((now - parked) * 1000.0, now)
        self.total.record((now - begun) * 1000.0, now)

    def throttle(self, milliseconds: float, now: float) -> None:
        """A quota holds a request back for so long."""
        self.throttled.record(milliseconds, now)

    @property
    def count(self) -> int:
        return sum(self.versions.values())


class Reading:
    """The distributions of a name of RequestMetrics, which may be that of several sorts of requests."""

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
    """A distribution of values that are all zero."""
    made = Distribution()
    made.add_zeros(recent)
    made.count = count
    return made


SORTS: Final[dict[str, tuple[str, str]]] = {
    "Fetch": ("FetchConsumer", "FetchFollower"),
}
"""API -> the names under which its two sorts of requests are counted; its own name has the sum."""


class Requests:
    """All APIs of a node, by the names that Kafka gives them."""

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        self.by_name: dict[str, Measured] = {}

    def of(self, name: str) -> Measured:
        """What counts the API; made when it is first asked for."""
        name, other = SORTS.get(name, (name, None))
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Measured(None if other is None else self.of(other))
        return found

    def parts(self) -> dict[str, list[Measured]]:
        """Each name of RequestMetrics with what is counted under it."""
        parts = {name: [measured] for name, measured in self.by_name.items()}
        for name, sorts in SORTS.items():
            parts[name] = [self.by_name[each] for each in sorts if each in self.by_name]
        return parts
