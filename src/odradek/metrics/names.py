"""What a metric is, and how JMX names it: `domain:type=TYPE,name=NAME,tag=value,...` with attributes by its kind, or one attribute of
`domain:type=TYPE,tag=value,...` (the newer kind of Kafka's metrics).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What a metric's value is; the words are those of Yammer's library, whose MBeans Kafka shows."""

    GAUGE = "gauge"
    """A number as it is now. In the registry: int or float."""
    METER = "meter"
    """A count of events, with their rates over one, five and fifteen minutes. In the registry: int, the count."""
    HISTOGRAM = "histogram"
    """A count of values and their percentiles. In the registry: `histogram.Distribution`."""
    TIMER = "timer"
    """Both: how often something was done, and how long it took in ms. In the registry: `histogram.Distribution`."""
    TEXT = "text"
    """A word. In the registry: str."""


PERCENTILES: Final[tuple[tuple[str, float], ...]] = (
    ("50thPercentile", 0.5),
    ("75thPercentile", 0.75),
    ("95thPercentile", 0.95),
    ("98thPercentile", 0.98),
    ("99thPercentile", 0.99),
    ("999thPercentile", 0.999),
)
"""Attribute of a histogram's MBean -> the share of values that it bounds."""

Tags = tuple[tuple[str, str], ...]
"""(key, value), in the order of the MBean's name."""

NO_TAGS: Final[Tags] = ()


class Metric(NamedTuple):
    """One metric, with all of its series."""

    domain: str
    type: str
    name: str
    """The MBean's name=; of an `attribute` the attribute's name."""
    kind: Kind
    help: str
    tags: tuple[str, ...] = ()
    """The keys that tell its series apart; some series may have none of them (the sum over all topics)."""
    unit: str = ""
    attribute: bool = False
    """Whether it is one attribute of the MBean domain:type=TYPE, which has no name=."""

    @property
    def key(self) -> str:
        """The MBean's name without tags; with its attribute behind a dot where it is one."""
        if self.attribute:
            return f"{self.domain}:type={self.type}.{self.name}"
        return f"{self.domain}:type={self.type},name={self.name}"

    def mbean(self, tags: Tags = NO_TAGS) -> str:
        """The ObjectName of one series, as JMX writes it."""
        parts = [("type", self.type), *tags] if self.attribute else [("type", self.type), ("name", self.name), *tags]
        return f"{self.domain}:" + ",".join(f"{key}={quoted(value)}" for key, value in parts)


def quoted(value: str) -> str:
    """A value within an ObjectName: in quotes where it has characters that mean something there (ObjectName.quote)."""
    if all(character.isalnum() or character in "-_.%/ " for character in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*").replace("?", "\\?").replace("\n", "\\n")
    return f'"{escaped}"'
