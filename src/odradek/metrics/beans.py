"""Metrics in the form of JMX: MBean -> attribute -> value, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from odradek.metrics.histogram import Distribution
from odradek.metrics.names import PERCENTILES, Kind, Metric
from odradek.metrics.registry import Registry, Series, count_of


def render_beans(registry: Registry, now: float) -> Iterator[str]:
    """Yield the parts of a JSON object; "" where the caller may pause. Attributes of an MBean that several metrics have are merged.

    `now` is in seconds of the clock with which `Registry.update` is called, and is used for the mean of rates.
    """
    attributes: dict[str, dict[str, object]] = {}
    comma = ""
    yield "{"
    for metric in list(registry.metrics()):
        parts: list[str] = []
        for series in registry.read(metric):
            if series is None:
                yield ""
                continue
            keys, values, _ = series
            bean = metric.mbean(tuple(zip(keys, values, strict=True)))
            if metric.attribute:
                attributes.setdefault(bean, {}).update(_attributes(registry, metric, series, now))
                continue
            parts.append(f"{comma}\n{json.dumps(bean)}: {json.dumps(_attributes(registry, metric, series, now))}")
            comma = ","
            if len(parts) >= 200:
                yield "".join(parts)
                parts = []
        yield "".join(parts)
    for bean, values_of in attributes.items():
        yield f"{comma}\n{json.dumps(bean)}: {json.dumps(values_of)}"
        comma = ","
    yield "\n}\n"


def _attributes(registry: Registry, metric: Metric, series: Series, now: float) -> dict[str, object]:
    keys, values, value = series
    if metric.attribute:
        return {metric.name: value if not isinstance(value, Distribution) else value.count}
    if metric.kind in (Kind.GAUGE, Kind.TEXT):
        return {"Value": value if not isinstance(value, Distribution) else value.count}
    attributes: dict[str, object] = {"Count": count_of(value)}
    if isinstance(value, Distribution):
        attributes |= {"Mean": value.mean, "Min": value.smallest, "Max": value.largest}
        bounds = value.percentiles([share for _, share in PERCENTILES])
        attributes |= {name: bound for (name, _), bound in zip(PERCENTILES, bounds, strict=True)}
    if metric.kind in (Kind.METER, Kind.TIMER):
        rates = registry.rates(metric, keys, values)
        one, five, fifteen = (0.0, 0.0, 0.0) if rates is None else rates.averages
        mean = value if isinstance(value, float) else 0.0 if rates is None else rates.mean(count_of(value), now)
        attributes |= {"MeanRate": mean, "OneMinuteRate": one, "FiveMinuteRate": five, "FifteenMinuteRate": fifteen}
    return attributes
