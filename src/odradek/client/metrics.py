"""Metrics of a client, under the names of Kafka's client metrics (org.apache.kafka.common.network.Selector, Sender).

A connection reports each request with two calls of a few additions; rates and averages are computed when they are read. As in Kafka, they
cover the last metrics.num.samples windows of metrics.sample.window.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.client.settings.common_keys import CLIENT_ID, METRICS_NUM_SAMPLES, METRICS_SAMPLE_WINDOW_MS
from odradek.client.settings.config import ClientConfig
from odradek.protocol.api_keys import ApiKey


class MetricName(NamedTuple):
    """Metric: its name and group as in Kafka, and its tags (client-id, node-id, api)."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


class _Sample:
    __slots__ = ("begin_s", "highest", "number", "total")

    def __init__(self, begin_s: float) -> None:
        self.begin_s = begin_s
        self.number = 0
        self.total = 0.0
        self.highest = 0.0


class Sampled:
    """Number, sum and maximum of the values recorded in the last windows, and number and sum since the start (Kafka's SampledStat)."""

    __slots__ = ("_ends_s", "_keep", "_samples", "_window_s", "number", "total")

    def __init__(self, keep: int, window_s: float) -> None:
        self._keep = keep
        self._window_s = window_s
        self._samples: deque[_Sample] = deque(maxlen=keep)
        self._ends_s = float("-inf")
        self.number = 0
        self.total = 0.0

    def record(self, value: float, now_s: float) -> None:
        """Add a value with the time `now_s`."""
        if now_s >= self._ends_s:
            self._samples.append(_Sample(now_s))
            self._ends_s = now_s + self._window_s
        sample = self._samples[-1]
        sample.number += 1
        sample.total += value
        if value > sample.highest:
            sample.highest = value
        self.number += 1
        self.total += value

    def _current(self, now_s: float) -> list[_Sample]:
        oldest_s = now_s - self._keep * self._window_s
        return [sample for sample in self._samples if sample.begin_s > oldest_s]

    def _seconds(self, samples: list[_Sample], now_s: float) -> float:
        # As Kafka's Rate: the time is at least that of the complete windows, so that a new client does not show too high a rate.
        return max(now_s - samples[0].begin_s, (self._keep - 1) * self._window_s, self._window_s if self._keep == 1 else 0.0, 1e-9)

    def rate(self, now_s: float) -> float:
        """Return the number of values per second."""
        samples = self._current(now_s)
        return sum(sample.number for sample in samples) / self._seconds(samples, now_s) if samples else 0.0

    def total_rate(self, now_s: float) -> float:
        """Return the sum of the values per second."""
        samples = self._current(now_s)
        return sum(sample.total for sample in samples) / self._seconds(samples, now_s) if samples else 0.0

    def average(self, now_s: float) -> float:
        """Return the mean of the values; NaN without values, as in Kafka."""
        samples = self._current(now_s)
        number = sum(sample.number for sample in samples)
        return sum(sample.total for sample in samples) / number if number else float("nan")

    def highest(self, now_s: float) -> float:
        """Return the largest value; NaN without values, as in Kafka."""
        return max((sample.highest for sample in self._current(now_s)), default=float("nan"))


class NodeMeter:
    """Metrics of the connections to one node, in total and by API (`network.transport.Meter`, one for each connection)."""

    __slots__ = ("_make", "by_api", "incoming", "latency", "outgoing", "responses", "throttled")

    def __init__(self, keep: int, window_s: float) -> None:
        self._make = (keep, window_s)
        self.outgoing = Sampled(keep, window_s)
        self.incoming = Sampled(keep, window_s)
        self.responses = Sampled(keep, window_s)
        self.latency = Sampled(keep, window_s)
        self.throttled = Sampled(keep, window_s)
        self.by_api: dict[int, Sampled] = {}

    def answered(self, api_key: int, latency_ms: float, now_s: float) -> None:
        """Note a response, `latency_ms` after its request was written."""
        self.responses.record(1, now_s)
        self.latency.record(latency_ms, now_s)
        sampled = self.by_api.get(api_key)
        if sampled is None:
            sampled = self.by_api[api_key] = Sampled(*self._make)
        sampled.record(latency_ms, now_s)


class _ConnectionMeter:
    __slots__ = ("_node", "_waiting")

    def __init__(self, node: NodeMeter) -> None:
        self._node = node
        self._waiting: deque[tuple[int, float]] = deque()

    def sent(self, api_key: int, size: int, now_s: float, *, answered: bool) -> None:
        self._node.outgoing.record(size, now_s)
        if answered:
            self._waiting.append((api_key, now_s))

    def received(self, size: int, answers: int, now_s: float) -> None:
        self._node.incoming.record(size, now_s)
        for _ in range(answers):
            api_key, sent_s = self._waiting.popleft()
            self._node.answered(api_key, (now_s - sent_s) * 1000, now_s)


class ClientMetrics:
    """Metrics of one client; recorded in its loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._keep = config[METRICS_NUM_SAMPLES]
        self._window_s = config[METRICS_SAMPLE_WINDOW_MS] / 1000
        self._client_id = config[CLIENT_ID]
        self._kind = config.kind
        self._nodes: dict[int, NodeMeter] = {}
        self._created = 0
        self._closed = 0
        self._authentications = 0
        self._failed_authentications = 0
        self._reauthentications = Sampled(self._keep, self._window_s)
        self._failed_reauthentications = 0

    def _node(self, node_id: int) -> NodeMeter:
        meter = self._nodes.get(node_id)
        if meter is None:
            meter = self._nodes[node_id] = NodeMeter(self._keep, self._window_s)
        return meter

    def opened(self, node_id: int) -> _ConnectionMeter:
        """Note that a connection is ready; return the meter of that connection."""
        self._created += 1
        return _ConnectionMeter(self._node(node_id))

    def closed(self) -> None:
        """Note that a connection that was ready is closed."""
        self._closed += 1

    def throttled(self, node_id: int, throttle_time_ms: int, now_s: float) -> None:
        """Note that a node has throttled the client."""
        self._node(node_id).throttled.record(throttle_time_ms, now_s)

    def authenticated(self) -> None:
        """Note that a broker has accepted the client (SASL)."""
        self._authentications += 1

    def authentication_failed(self) -> None:
        """Note that the broker has refused the client, or the client the broker (TLS and SASL)."""
        self._failed_authentications += 1

    def reauthenticated(self, seconds: float, now_s: float) -> None:
        """Note that a session was renewed, which took `seconds`."""
        self._reauthentications.record(seconds * 1000, now_s)

    def reauthentication_failed(self) -> None:
        """Note that a session could not be renewed."""
        self._failed_reauthentications += 1

    def snapshot(self, now_s: float) -> dict[MetricName, float]:
        """Return the current value of every metric: times in milliseconds, rates per second, sizes in bytes."""
        own = (("client-id", self._client_id),)
        group = f"{self._kind}-metrics"
        found = {MetricName(name, group, own): value for name, value in self._of_client(now_s).items()}
        for node_id, meter in self._nodes.items():
            tags = (*own, ("node-id", f"node-{node_id}"))
            for name, value in _of_node(meter, now_s):
                found[MetricName(name, f"{self._kind}-node-metrics", tags)] = value
            for api_key, sampled in meter.by_api.items():
                for name, value in _of_api(sampled, now_s):
                    found[MetricName(name, f"{self._kind}-api-metrics", (*tags, ("api", ApiKey(api_key).name)))] = value
        return found

    def _of_client(self, now_s: float) -> Mapping[str, float]:
        values: dict[str, float] = {
            "connection-count": self._created - self._closed,
            "connection-creation-total": self._created,
            "connection-close-total": self._closed,
            "successful-authentication-total": self._authentications,
            "failed-authentication-total": self._failed_authentications,
            "successful-reauthentication-total": self._reauthentications.number,
            "failed-reauthentication-total": self._failed_reauthentications,
            "reauthentication-latency-avg": self._reauthentications.average(now_s),
            "reauthentication-latency-max": self._reauthentications.highest(now_s),
        }
        summed = ("request-total", "request-rate", "response-total", "response-rate")
        bytes_ = ("outgoing-byte-total", "outgoing-byte-rate", "incoming-byte-total", "incoming-byte-rate")
        values.update(dict.fromkeys((*summed, *bytes_), 0.0))
        for meter in self._nodes.values():
            for name, value in _of_node(meter, now_s):
                if name in values:
                    values[name] += value
        return values


def _of_node(meter: NodeMeter, now_s: float) -> Iterator[tuple[str, float]]:
    yield "request-total", meter.outgoing.number
    yield "request-rate", meter.outgoing.rate(now_s)
    yield "request-size-avg", meter.outgoing.average(now_s)
    yield "request-size-max", meter.outgoing.highest(now_s)
    yield "outgoing-byte-total", meter.outgoing.total
    yield "outgoing-byte-rate", meter.outgoing.total_rate(now_s)
    yield "incoming-byte-total", meter.incoming.total
    yield "incoming-byte-rate", meter.incoming.total_rate(now_s)
    yield "response-total", meter.responses.number
    yield "response-rate", meter.responses.rate(now_s)
    yield "request-latency-avg", meter.latency.average(now_s)
    yield "request-latency-max", meter.latency.highest(now_s)
    yield "throttle-time-avg", meter.throttled.average(now_s)
    yield "throttle-time-max", meter.throttled.highest(now_s)


def _of_api(sampled: Sampled, now_s: float) -> Iterator[tuple[str, float]]:
    yield "response-total", sampled.number
    yield "response-rate", sampled.rate(now_s)
    yield "request-latency-avg", sampled.average(now_s)
    yield "request-latency-max", sampled.highest(now_s)
