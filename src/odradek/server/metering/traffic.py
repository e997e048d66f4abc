"""Metrics BrokerTopicMetrics and RequestMetrics, from the counts of the hot paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.metrics.catalogue import QUOTAS, TRAFFIC
from odradek.metrics.registry import read_one
from odradek.metrics.requests import Measured, Reading
from odradek.metrics.traffic import FIELDS, TOPIC_FIELDS

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.metrics.histogram import Distribution
    from odradek.metrics.registry import Registry, Series
    from odradek.metrics.requests import Requests
    from odradek.metrics.traffic import Traffic
    from odradek.server.cluster.forwarding import Forwarder

_TOPIC = ("topic",)
_AT_ONCE = 1000
"""Topics that are read in one slice."""
_REQUEST = ("request",)
_VERSION = ("request", "version")
_ERROR = ("request", "error")


def add_traffic(registry: Registry, traffic: Callable[[], Traffic | None]) -> None:
    """Register BrokerTopicMetrics; they have no values before the replicas exist."""
    keys = {metric.name: metric.key for metric in TRAFFIC}
    by_topic = {field for field, _ in TOPIC_FIELDS}

    def reader(field: str) -> Callable[[], Iterator[Series | None]]:
        def read() -> Iterator[Series | None]:
            now = traffic()
            if now is None:
                return
            yield (), (), _total(now, field)
            if field in by_topic:
                for number, (topic, counts) in enumerate(list(now.topics.items())):
                    if number % _AT_ONCE == _AT_ONCE - 1:
                        yield None
                    yield _TOPIC, (topic,), getattr(counts, field)

        return read

    for field, name in FIELDS:
        registry.add(keys[name], reader(field))


def _total(traffic: Traffic, field: str) -> int:
    value: int = getattr(traffic.total(), field)
    return value


def add_forwarding(registry: Registry, forwarder: Callable[[], Forwarder | None], clock: Clock) -> None:
    """Register ForwardingManager: requests forwarded to the active controller."""

    def add(name: str, of: Callable[[Forwarder], float]) -> None:
        registry.add(f"kafka.server:type=ForwardingManager.{name}", read_one(forwarder, of, 0))

    add("QueueLength", lambda forwarder: forwarder.under_way)

    def remote(share: float) -> Callable[[Forwarder], float]:
        return lambda forwarder: forwarder.times_ms.read(clock.monotonic()).percentiles([share])[0]

    for which, share in (("p99", 0.99), ("p999", 0.999)):
        add(f"QueueTimeMs.{which}", lambda _: 0)
        add(f"RemoteTimeMs.{which}", remote(share))


def add_quotas(registry: Registry) -> None:
    """Register the metrics of quotas, which have no values yet."""
    for metric in QUOTAS:
        registry.add(metric.key, lambda: ())


class RequestSource:
    """Metrics RequestMetrics. The histograms of a request name are merged once per scrape, and shared by its metrics."""

    def __init__(self, requests: Requests, clock: Clock) -> None:
        self._requests = requests
        self._clock = clock
        self._readings: dict[str, Reading] = {}
        self._read_at = -1.0

    def add_to(self, registry: Registry) -> None:
        network = "kafka.network:type=RequestMetrics,name="
        registry.add(network + "RequestsPerSec", self._versions)
        registry.add(network + "ErrorsPerSec", self._errors)

        def add(name: str, of: Callable[[Reading], Distribution]) -> None:
            registry.add(network + name, lambda: self._distributions(of))

        add("RequestBytes", lambda reading: reading.sizes)
        add("TotalTimeMs", lambda reading: reading.total)
        add("LocalTimeMs", lambda reading: reading.local)
        add("RemoteTimeMs", lambda reading: reading.remote)
        add("ThrottleTimeMs", lambda reading: reading.throttled)
        for name in ("RequestQueueTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs"):
            add(name, lambda reading: reading.nothing)

    def _parts(self) -> Iterator[tuple[str, list[Measured]]]:
        for name, parts in sorted(self._requests.parts().items()):
            if any(part.versions for part in parts):
                yield name, parts

    def _versions(self) -> Iterator[Series]:
        for name, parts in self._parts():
            for version, count in _sums(part.versions for part in parts):
                yield _VERSION, (name, str(version)), count

    def _errors(self) -> Iterator[Series]:
        for name, parts in sorted(self._requests.parts().items()):
            for code, count in _sums(part.errors for part in parts):
                yield _ERROR, (name, _error_name(code)), count

    def _distributions(self, of: Callable[[Reading], Distribution]) -> Iterator[Series | None]:
        now = self._clock.monotonic()
        if now != self._read_at and now - self._read_at > 1.0:
            self._readings.clear()
            self._read_at = now
        for name, parts in self._parts():
            reading = self._readings.get(name)
            if reading is None:
                reading = self._readings[name] = Reading(parts, now)
                yield None
            yield _REQUEST, (name,), of(reading)


def _sums(counts: Iterable[Mapping[int, int]]) -> list[tuple[int, int]]:
    """Return each number with the sum of its counts, sorted by number."""
    total: Counter[int] = Counter()
    for each in counts:
        total.update(each)
    return sorted(total.items())


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
