"""Registry of a node's metrics, each with the functions that return its series.

Metrics are computed only when they are read. Reading is divided into chunks, so that the event loop can do other work in between. The
registry also keeps the rates of meters (`update`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from odradek.metrics.histogram import Distribution
from odradek.metrics.names import Kind, Metric
from odradek.metrics.rates import Rates

logger = logging.getLogger(__name__)

T = TypeVar("T")

Value: TypeAlias = "int | float | str | Distribution"
Series: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...], Value]"
"""(tag keys, tag values, value)."""
Read: TypeAlias = "Callable[[], Iterable[Series | None]]"
"""Function that yields the series of a metric, and None after some work, where the caller may pause."""


class Registry:
    """Metrics of a node by their key (`Metric.key`), in the order of the catalogue."""

    def __init__(self, catalogue: Iterable[Metric]) -> None:
        self._known: dict[str, Metric] = {metric.key: metric for metric in catalogue}
        self._reads: dict[str, list[Read]] = {}
        self._rates: dict[str, dict[tuple[str, ...], Rates]] = {}
        self._failed: set[str] = set()
        """Keys of metrics whose read errors have been logged."""

    def add(self, key: str, read: Read) -> None:
        """Add a source of the metric's series. Raises KeyError for a metric that the catalogue does not contain."""
        self._known[key]
        self._reads.setdefault(key, []).append(read)

    def metrics(self) -> Iterator[Metric]:
        """Iterate over the metrics with sources, in the order of the catalogue."""
        return (metric for key, metric in self._known.items() if key in self._reads)

    def read(self, metric: Metric) -> Iterator[Series | None]:
        """Yield the current series of a metric; None where the caller may pause. Errors of a source are logged once."""
        for read in self._reads.get(metric.key, ()):
            try:
                yield from read()
            except Exception:
                # A failing metric must not hide the others.
                if metric.key not in self._failed:
                    self._failed.add(metric.key)
                    logger.exception("the metric %s cannot be computed", metric.key)

    def update(self, now: float) -> Iterator[None]:
        """Update the rates of all meters and timers; yield where the caller may pause. Rates of missing series are dropped."""
        for metric in list(self.metrics()):
            if metric.kind not in (Kind.METER, Kind.TIMER):
                continue
            before = self._rates.get(metric.key, {})
            after: dict[tuple[str, ...], Rates] = {}
            for series in self.read(metric):
                if series is None:
                    yield
                    continue
                keys, values, value = series
                count = count_of(value)
                name = keys + values
                rates = before.get(name)
                if rates is None:
                    rates = Rates(now, count)
                else:
                    rates.update(count, now)
                after[name] = rates
            self._rates[metric.key] = after
            yield

    def rates(self, metric: Metric, keys: tuple[str, ...], values: tuple[str, ...]) -> Rates | None:
        """Return the rates of a series; None before the first `update`."""
        return self._rates.get(metric.key, {}).get(keys + values)


def count_of(value: Value) -> int:
    """Return the count of a meter or timer."""
    return value.count if isinstance(value, Distribution) else int(value) if not isinstance(value, str) else 0


def one(value: Value) -> list[Series]:
    """Return the only series of a metric without tags."""
    return [((), (), value)]


def read_one(source: Callable[[], T | None], of: Callable[[T], Value], missing: Value | None = None) -> Read:
    """Return a reader of one value of `source()`. While `source()` is None, it reads `missing`, or no series without `missing`."""

    def read() -> list[Series]:
        made = source()
        value = missing if made is None else of(made)
        return [] if value is None else one(value)

    return read


def by(key: str, values: Mapping[str, Value]) -> list[Series]:
    """Return a series for each value of a tag."""
    keys = (key,)
    return [(keys, (name,), value) for name, value in values.items()]
