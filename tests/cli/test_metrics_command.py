"""`odradek metrics`, of an embedded broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.places import free_ports
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    [port] = free_ports(1)
    with EmbeddedBroker({"odradek.metrics.listener": str(port)}, topics=["orders"]):
        yield f"127.0.0.1:{port}"


def test_metrics_are_printed_as_prometheus_reads_them(address: str, command: Command) -> None:
    by_address = command("metrics", "-b", address)
    assert by_address.status == 0
    assert 'kafka_log_log_size{topic="orders",partition="0"} 0\n' in by_address.out
    assert "kafka_log_log_size" in command("metrics", "--url", f"http://{address}/").out


def test_metrics_are_printed_as_jmx_shows_them(address: str, command: Command) -> None:
    beans = json.loads(command("metrics", "-b", address, "--json").out)
    assert beans["kafka.log:type=Log,name=Size,topic=orders,partition=0"] == {"Value": 0}


def test_health_is_the_exit_status(address: str, command: Command) -> None:
    assert command("metrics", "-b", address, "--health", "live")[:2] == (0, "alive\n")
    assert command("metrics", "-b", address, "--health", "ready")[:2] == (0, "ready\n")


def test_what_is_no_listener_for_metrics(address: str, command: Command) -> None:
    answer = command("metrics", "--url", f"http://{address}/elsewhere")
    assert answer.status == 1
    assert answer.err.startswith(f"odradek metrics: http://{address}/elsewhere/metrics answers 404 Not Found; is it the metrics listener")
