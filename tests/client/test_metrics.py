"""Metrics of the clients: windows as in Kafka's SampledStat and Rate, latencies at the API that they belong to."""

from __future__ import annotations

import math

import pytest

from odradek.client.metrics import ClientMetrics, Sampled
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig
from odradek.protocol.api_keys import ApiKey


def test_what_is_older_than_all_windows_counts_no_more() -> None:
    sampled = Sampled(2, 30)
    sampled.record(100, 0)
    sampled.record(1, 29)
    sampled.record(3, 31)
    assert (sampled.highest(40), sampled.average(40)) == (100, pytest.approx(104 / 3))
    assert (sampled.highest(70), sampled.average(70)) == (3, 3)
    assert math.isnan(sampled.highest(100))
    assert math.isnan(sampled.average(100))
    assert (sampled.number, sampled.total) == (3, 104)


def test_a_rate_is_of_at_least_all_windows_but_one() -> None:
    sampled = Sampled(2, 30)
    for _ in range(30):
        sampled.record(10, 0)
    assert sampled.rate(0.1) == pytest.approx(1)
    assert sampled.total_rate(0.1) == pytest.approx(10)
    assert sampled.rate(50) == pytest.approx(30 / 50)
    assert sampled.rate(61) == 0


def test_one_window_is_a_window() -> None:
    sampled = Sampled(1, 10)
    sampled.record(1, 0)
    assert sampled.rate(1) == pytest.approx(0.1)
    sampled.record(1, 10)
    assert (sampled.highest(10), sampled.number) == (1, 2)


def test_an_answer_belongs_to_the_oldest_request() -> None:
    metrics = ClientMetrics(ClientConfig(ADMIN_CONFIG))
    meter = metrics.opened(1)
    meter.sent(ApiKey.FETCH, 100, 1.0, answered=True)
    meter.sent(ApiKey.PRODUCE, 100, 2.0, answered=False)
    meter.sent(ApiKey.METADATA, 100, 2.0, answered=True)
    meter.received(10, 0, 2.5)
    meter.received(10, 1, 3.0)
    meter.received(10, 1, 3.5)
    latencies = {dict(name.tags).get("api"): value for name, value in metrics.snapshot(4.0).items() if name.name == "request-latency-max"}
    assert latencies["FETCH"] == pytest.approx(2000)
    assert latencies["METADATA"] == pytest.approx(1500)
    assert "PRODUCE" not in latencies
