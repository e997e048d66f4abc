"""Types of metrics, and their names in JMX.

A metric is an MBean `domain:type=TYPE,name=NAME,tag=value,...` with attributes by its kind, or an attribute of an MBean
`domain:type=TYPE,tag=value,...` (Kafka's newer metrics).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """Kind of a metric's value, in the terms of Yammer's library, whose MBeans Kafka shows."""

    GAUGE = "gauge"
    """Current number. In the registry: int or float."""
    METER = "meter"
    """Count of events, with rates over 1, 5 and 15 minutes. In the registry: int, the count."""
    HISTOGRAM = "histogram"
    """Count and percentiles of values. In the registry: `histogram.Distribution`."""
    TIMER = "timer"
    """Meter of events and histogram of their durations in ms. In the registry: `histogram.Distribution`."""
    TEXT = "text"
    """Text. In the registry: str."""


PERCENTILES: Final[tuple[tuple[str, float], ...]] = (
    ("50thPercentile", 0.5),
    ("75thPercentile", 0.75),
    ("95thPercentile", 0.95),
    ("98thPercentile", 0.98),
    ("99thPercentile", 0.99),
    ("999thPercentile", 0.999),
)
"""(attribute of a histogram's MBean, share of values that it bounds)."""

Tags = tuple[tuple[str, str], ...]
"""(key, value) pairs in the order of the MBean's name."""

NO_TAGS: Final[Tags] = ()


class Metric(NamedTuple):
    """Metric with all of its series."""

    domain: str
    type: str
    name: str
    """name= of the MBean; for an `attribute` metric the attribute's name."""
    kind: Kind
    help: str
    tags: tuple[str, ...] = ()
    """Tag keys of the series; a series without tags is possible (the sum over all topics)."""
    unit: str = ""
    attribute: bool = False
    """Whether the metric is an attribute of the MBean domain:type=TYPE, which has no name=."""

    @property
    def key(self) -> str:
        """Name of the MBean without tags, followed by a dot and the attribute for an `attribute` metric."""
        if self.attribute:
            return f"{self.domain}:type={self.type}.{self.name}"
        return f"{self.domain}:type={self.type},name={self.name}"

    def mbean(self, tags: Tags = NO_TAGS) -> str:
        """Return the ObjectName of a series, as JMX writes it."""
        parts = [("type", self.type), *tags] if self.attribute else [("type", self.type), ("name", self.name), *tags]
        return f"{self.domain}:" + ",".join(f"{key}={quoted(value)}" for key, value in parts)


def quoted(value: str) -> str:
    """Return a value of an ObjectName, quoted when it contains special characters (ObjectName.quote)."""
    if all(character.isalnum() or character in "-_.%/ " for character in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*").replace("?", "\\?").replace("\n", "\\n")
    return f'"{escaped}"'
