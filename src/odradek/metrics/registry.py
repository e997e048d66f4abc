"""Where all metrics of a node are read: each with the function that tells its series.

Reading costs nothing until it is done, and is done in pieces, so that a loop can do something else in between. The rates of meters are
kept here, for those who want them (`look`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from odradek.metrics.histogram import Distribution
from odradek.metrics.names import Kind, Metric
from odradek.metrics.rates import Rates

logger = logging.getLogger(__name__)

Value: TypeAlias = "int | float | str | Distribution"
Series: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...], Value]"
"""(tag keys, tag values, value)."""
Read: TypeAlias = "Callable[[], Iterable[Series | None]]"
"""Tells the series of a metric, and None where it has worked for some time and others may have their turn."""


class Registry:
    """The metrics of a node by their key (`Metric.key`), in the order in which they were added."""

    def __init__(self, catalogue: Iterable[Metric]) -> None:
        self._known: dict[str, Metric] = {metric.key: metric for metric in catalogue}
        self._reads: dict[str, list[Read]] = {}
        self._rates: dict[str, dict[tuple[str, ...], Rates]] = {}
        self._failed: set[str] = set()
        """Keys of metrics that could not be read, which the log has been told."""

    def add(self, key: str, read: Read) -> None:
        """Has the metric's series told by `read`, beside what others tell. KeyError for what the catalogue has not."""
        self._known[key]
        self._reads.setdefault(key, []).append(read)

    def metrics(self) -> Iterator[Metric]:
        """Those that are told, in the order of the catalogue."""
        return (metric for key, metric in self._known.items() if key in self._reads)

    def read(self, metric: Metric) -> Iterator[Series | None]:
        """The series of one metric as they are now, one after the other; None where there may be a pause."""
        for read in self._reads.get(metric.key, ()):
            try:
                yield from read()
            except Exception:
                # One that cannot be told must not keep the others from being told.
                if metric.key not in self._failed:
                    self._failed.add(metric.key)
                    logger.exception("the metric %s cannot be read", metric.key)

    def look(self, now: float) -> Iterator[None]:
        """Looks at the counts of all meters and timers, for their rates; yields where there may be a pause. Series that are gone are
        forgotten.
        """
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
                    rates.look(count, now)
                after[name] = rates
            self._rates[metric.key] = after
            yield

    def rates(self, metric: Metric, keys: tuple[str, ...], values: tuple[str, ...]) -> Rates | None:
        """Those of one series; None where nobody has looked yet."""
        return self._rates.get(metric.key, {}).get(keys + values)


def count_of(value: Value) -> int:
    """The count of a meter or of a timer."""
    return value.count if isinstance(value, Distribution) else int(value) if not isinstance(value, str) else 0


def one(value: Value) -> list[Series]:
    """A metric with one series, without tags."""
    return [((), (), value)]


def by(key: str, values: Mapping[str, Value]) -> list[Series]:
    """A series for each value of one tag."""
    keys = (key,)
    return [(keys, (name,), value) for name, value in values.items()]
