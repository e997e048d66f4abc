"""Prometheus text format 0.0.4, under the names that jmx_exporter's rules for Kafka in KRaft mode give to MBeans.

The rules are those of its example kafka-kraft-3_0_0.yml, with lowercaseOutputName. `RULES` has them in their order: the first matching rule
counts, and a metric without a matching rule is not shown. Rules of Odradek are marked with `ours`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from odradek.metrics.histogram import Distribution
from odradek.metrics.names import PERCENTILES, Kind, Metric
from odradek.metrics.registry import Registry, Series, Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LINES_PER_CHUNK: Final = 400
"""Most lines of a chunk, which take a fraction of a millisecond."""


class Rule(NamedTuple):
    """Rule: pattern of an attribute `domain<type=T, name=N, key=value><>ATTRIBUTE`, and its Prometheus name and labels.

    $1 to $9 in name and labels stand for the pattern's groups.
    """

    pattern: str
    name: str
    kind: str
    labels: tuple[tuple[str, str], ...] = ()
    ours: bool = False


def _pair(number: int) -> tuple[str, str]:
    return (f"${number}", f"${number + 1}")


_NAMED = r"kafka\.(\w+)<type=(.+), name=(.+)"
_TAG = r", (.+)=(.+)"
_PER_SECOND = _NAMED + r"PerSec\w*"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        r"kafka\.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        "kafka_server_$1_$2",
        "gauge",
        (("clientId", "$3"), ("topic", "$4"), ("partition", "$5")),
    ),
    Rule(
        r"kafka\.server<type=(.+), name=(.+), clientId=(.+), brokerHost=(.+), brokerPort=(.+)><>Value",
        "kafka_server_$1_$2",
        "gauge",
        (("clientId", "$3"), ("broker", "$4:$5")),
    ),
    Rule(r"kafka\.coordinator\.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_$1_$2_$3", "gauge"),
    Rule(
        r"kafka\.server<type=raft-metrics><>current-state: ([a-z]+)",
        "kafka_server_raft_metrics_current_state_info",
        "gauge",
        (("state", "$1"),),
    ),
    # Connections by listener: the general rule below would put the listener into the name.
    Rule(
        r"kafka\.server<type=socket-server-metrics, listener=(.+), networkProcessor=(.+)><>([a-z-]+)-total",
        "kafka_server_socket_server_metrics_$3_total",
        "counter",
        (("listener", "$1"), ("networkProcessor", "$2")),
        ours=True,
    ),
    Rule(
        r"kafka\.server<type=socket-server-metrics, listener=(.+), networkProcessor=(.+)><>([a-z-]+)",
        "kafka_server_socket_server_metrics_$3",
        "gauge",
        (("listener", "$1"), ("networkProcessor", "$2")),
        ours=True,
    ),
    # Attributes of MBeans without tags, by number or text; the rules of quotas, which have tags, are below.
    Rule(r"kafka\.server<type=([\w-]+)><>([a-z-]+)-total", "kafka_server_$1_$2_total", "counter"),
    Rule(r"kafka\.server<type=([\w-]+)><>([a-z-]+)", "kafka_server_$1_$2", "gauge"),
    # Counts of the coordinators by protocol and state.
    Rule(
        r"kafka\.server<type=([\w-]+), (protocol|state|feature-name)=(.+)><>([a-z-]+)",
        "kafka_server_$1_$4",
        "gauge",
        (("$2", "$3"),),
        ours=True,
    ),
    Rule(_PER_SECOND + _TAG + _TAG + "><>Count", "kafka_$1_$2_$3_total", "counter", (_pair(4), _pair(6))),
    Rule(_PER_SECOND + _TAG + "><>Count", "kafka_$1_$2_$3_total", "counter", (_pair(4),)),
    Rule(_PER_SECOND + "><>Count", "kafka_$1_$2_$3_total", "counter"),
    Rule(
        r"kafka\.server<type=(.+), user=(.+), client-id=(.+)><>([a-z-]+)",
        "kafka_server_quota_$4",
        "gauge",
        (("resource", "$1"), ("user", "$2"), ("clientId", "$3")),
    ),
    Rule(
        r"kafka\.server<type=(.+), client-id=(.+)><>([a-z-]+)", "kafka_server_quota_$3", "gauge", (("resource", "$1"), ("clientId", "$2"))
    ),
    Rule(r"kafka\.server<type=(.+), user=(.+)><>([a-z-]+)", "kafka_server_quota_$3", "gauge", (("resource", "$1"), ("user", "$2"))),
    Rule(_NAMED + _TAG + _TAG + "><>Value", "kafka_$1_$2_$3", "gauge", (_pair(4), _pair(6))),
    Rule(_NAMED + _TAG + "><>Value", "kafka_$1_$2_$3", "gauge", (_pair(4),)),
    Rule(_NAMED + "><>Value", "kafka_$1_$2_$3", "gauge"),
    Rule(_NAMED + _TAG + _TAG + "><>Count", "kafka_$1_$2_$3_count", "counter", (_pair(4), _pair(6))),
    Rule(_NAMED + _TAG + _TAG + r"><>(\d+)thPercentile", "kafka_$1_$2_$3", "gauge", (_pair(4), _pair(6), ("quantile", "0.$8"))),
    Rule(_NAMED + _TAG + "><>Count", "kafka_$1_$2_$3_count", "counter", (_pair(4),)),
    Rule(_NAMED + _TAG + r"><>(\d+)thPercentile", "kafka_$1_$2_$3", "gauge", (_pair(4), ("quantile", "0.$6"))),
    Rule(_NAMED + "><>Count", "kafka_$1_$2_$3_count", "counter"),
    Rule(_NAMED + r"><>(\d+)thPercentile", "kafka_$1_$2_$3", "gauge", (("quantile", "0.$4"),)),
    Rule(_NAMED + r"Percent\w*><>MeanRate", "kafka_$1_$2_$3_percent", "gauge"),
    Rule(_NAMED + r"Percent\w*><>Value", "kafka_$1_$2_$3_percent", "gauge"),
    Rule(_NAMED + r"Percent\w*" + _TAG + "><>Value", "kafka_$1_$2_$3_percent", "gauge", (_pair(4),)),
    # Domains with a second dot (kafka.coordinator.group) have only the rule above, and Odradek's domain has none.
    Rule(r"kafka\.coordinator\.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", "kafka_coordinator_$1_$2_$3_total", "counter", ours=True),
    Rule(r"kafka\.coordinator\.(\w+)<type=(.+), name=(.+)><>Count", "kafka_coordinator_$1_$2_$3_count", "counter", ours=True),
    Rule(
        r"kafka\.coordinator\.(\w+)<type=(.+), name=(.+)><>(\d+)thPercentile",
        "kafka_coordinator_$1_$2_$3",
        "gauge",
        (("quantile", "0.$4"),),
        ours=True,
    ),
    Rule(r"odradek<type=(.+), name=(.+)><>Value", "odradek_$1_$2", "gauge", ours=True),
)

_COMPILED: Final = tuple((rule, re.compile(rule.pattern)) for rule in RULES)
_GROUP: Final = re.compile(r"\$(\d)")
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9:_]+")


class Exposition(NamedTuple):
    """Prometheus name, kind and labels of an MBean's attribute. In a label's text \\x00N\\x00 stands for the value of tag N."""

    name: str
    kind: str
    labels: tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def exposed(metric: Metric, keys: tuple[str, ...], attribute: str) -> Exposition | None:
    """Return the exposition of an attribute of the metric's MBeans with these tags; None without a matching rule."""
    tags = [("type", metric.type)] + ([] if metric.attribute else [("name", metric.name)])
    tags += [(key, f"\x00{number}\x00") for number, key in enumerate(keys)]
    text = f"{metric.domain}<" + ", ".join(f"{key}={value}" for key, value in tags) + f"><>{attribute}"
    for rule, pattern in _COMPILED:
        match = pattern.fullmatch(text)
        if match is not None:

            def fill(template: str, match: re.Match[str] = match) -> str:
                return _GROUP.sub(lambda group: match.group(int(group.group(1))), template)

            name = _UNSAFE.sub("_", fill(rule.name)).lower()
            return Exposition(name, rule.kind, tuple((_UNSAFE.sub("_", fill(label)), fill(value)) for label, value in rule.labels))
    return None


def attributes(metric: Metric) -> tuple[str, ...]:
    """Return the attributes of the metric's MBeans that rules may match."""
    if metric.attribute:
        return (metric.name,)
    if metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
        return ("Count", *(name for name, _ in PERCENTILES))
    if metric.kind is Kind.METER:
        return ("MeanRate",) if "Percent" in metric.name else ("Count",)
    return ("Value",)


def series_names(metric: Metric) -> list[tuple[str, str]]:
    """Return the names under which the metric is shown, with their kinds, sorted."""
    names: dict[str, str] = {}
    for keys in {metric.tags} if metric.attribute else {(), metric.tags}:
        for attribute in attributes(metric):
            shown = exposed(metric, keys, f"{attribute}: leader" if metric.kind is Kind.TEXT else attribute)
            if shown is not None:
                names.setdefault(shown.name, shown.kind)
    return sorted(names.items())


def escaped(text: str) -> str:
    """Return a label's value escaped for its quotation marks."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def number(value: float) -> str:
    """Return the text of a sample's value."""
    if isinstance(value, int):
        return str(int(value))
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _prefix(shown: Exposition, values: tuple[str, ...]) -> str:
    """Return name and labels of a sample."""
    if not shown.labels:
        return shown.name
    parts: list[str] = []
    for label, text in shown.labels:
        if "\x00" in text:
            for position, value in enumerate(values):
                text = text.replace(f"\x00{position}\x00", value)
        parts.append(f'{label}="{escaped(text)}"')
    return shown.name + "{" + ",".join(parts) + "}"


def _head(name: str, kind: str, metric: Metric) -> str:
    return f"# HELP {name} {metric.help.replace(chr(10), ' ')} ({metric.key})\n# TYPE {name} {kind}\n"


def render(registry: Registry) -> Iterator[str]:
    """Yield the whole text in chunks of at most some hundred lines; "" where the caller may pause."""
    headed = ""
    labels: Labels = {}
    for metric in list(registry.metrics()):
        if metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
            yield from _distributions(metric, registry.read(metric))
        else:
            headed = yield from _numbers(metric, registry.read(metric), headed, labels)


Labels = dict[tuple[str, ...], dict[tuple[str, ...], str]]
"""Label names -> label values -> rendered labels. Cached, because ten metrics of each partition have the same labels."""


def _numbers(metric: Metric, series: Iterable[Series | None], headed: str, labels: Labels) -> Generator[str, None, str]:
    """Yield gauges, meters and texts, one line for each series.

    `headed` and the return value are the name whose header was written last, because adjacent metrics may share a name (quotas).
    """
    lines: list[str] = []
    attribute = attributes(metric)[0]
    fast: tuple[str, ...] | None = None
    written: dict[tuple[str, ...], str] = {}
    for each in series:
        if each is None:
            yield ""
            continue
        keys, values, value = each
        if keys == fast and not isinstance(value, (str, Distribution)):
            text = written.get(values)
            if text is None:
                text = written[values] = ",".join([f'{key}="{escaped(label)}"' for key, label in zip(keys, values, strict=True)])
            lines.append(f"{headed}{{{text}}} {value if type(value) is int else number(value)}\n")
        else:
            shown = exposed(metric, keys, f"{attribute}: {value}" if isinstance(value, str) else attribute)
            if shown is None:
                continue
            if shown.name != headed:
                headed = shown.name
                lines.append(_head(shown.name, shown.kind, metric))
            lines.append(f"{_prefix(shown, values)} {_shown_value(value)}\n")
            fast = keys if _is_plain(shown, keys) else None
            written = labels.setdefault(keys, {})
        if len(lines) >= LINES_PER_CHUNK:
            yield "".join(lines)
            lines = []
    if lines:
        yield "".join(lines)
    return headed


def _is_plain(shown: Exposition, keys: tuple[str, ...]) -> bool:
    """Return whether the labels are exactly the tags, in their order and with their names."""
    return bool(keys) and list(shown.labels) == [(key, f"\x00{position}\x00") for position, key in enumerate(keys)]


def _shown_value(value: Value) -> str:
    return "1" if isinstance(value, str) else number(value.count if isinstance(value, Distribution) else value)


def _distributions(metric: Metric, series: Iterable[Series | None]) -> Iterator[str]:
    """Yield histograms and timers: a counter, and the percentiles as gauges with the label quantile."""
    counts: list[str] = []
    quantiles: list[str] = []
    heads: list[str] = ["", ""]
    shares = [share for _, share in PERCENTILES]
    for each in series:
        if each is None:
            yield ""
            continue
        keys, values, value = each
        if not isinstance(value, Distribution):
            continue
        count = exposed(metric, keys, "Count")
        if count is None:
            continue
        heads[0] = heads[0] or _head(count.name, count.kind, metric)
        counts.append(f"{_prefix(count, values)} {value.count}\n")
        for (attribute, _), bound in zip(PERCENTILES, value.percentiles(shares), strict=True):
            shown = exposed(metric, keys, attribute)
            if shown is not None:
                heads[1] = heads[1] or _head(shown.name, shown.kind, metric)
                quantiles.append(f"{_prefix(shown, values)} {number(float(bound))}\n")
        if len(counts) % 20 == 0:
            yield ""  # the lines follow at the end, but their cost is spread
    for head, lines in zip(heads, (counts, quantiles), strict=True):
        for begin in range(0, len(lines), LINES_PER_CHUNK):
            yield (head if begin == 0 else "") + "".join(lines[begin : begin + LINES_PER_CHUNK])
