"""`odradek metrics`, of an embedded broker."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from odradek.cli.node import metrics
from odradek.testing.kit.embedded import EmbeddedBroker
from odradek.testing.kit.temporary import free_ports
from tests.cli.conftest import Command
from tests.network.web_servers import says, served


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
    problem = f"http://{address}/elsewhere/metrics returns status 404 Not Found; is it the metrics listener"
    assert answer.err.startswith(f"odradek metrics: {problem}")


class Closed(io.RawIOBase):
    """A standard output whose reader has gone."""

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_seen_enough_is_no_failure_of_the_node(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Closed(), write_through=True))
    with pytest.raises(BrokenPipeError):
        metrics.main(["-b", address])


@pytest.mark.parametrize(
    ("answered", "wrong"),
    [
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "the response is not HTTP"),
        (b"x" * 70_000 + b"\n", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the response ends early"),
        (b"", "Remote end closed connection without response"),
    ],
)
def test_a_port_with_something_else_is_told_in_a_line(answered: bytes, wrong: str, command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answered)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        found = command("metrics", "--url", url)
        thread.join()
    assert (found.status, found.err) == (1, f"odradek metrics: cannot read {url}: {wrong}; is odradek.metrics.listener set?\n")


def test_a_name_and_password_in_a_url_are_not_told(command: Command) -> None:
    found = command("metrics", "--url", "http://me:se-cret@127.0.0.1:1")
    assert (found.status, found.out) == (1, "")
    assert found.err == "odradek metrics: cannot read http://127.0.0.1:1: Connection refused; is odradek.metrics.listener set?\n"


def test_a_redirection_is_followed(address: str, command: Command) -> None:
    """As of a proxy before the node; no other command of HTTP does."""
    head = f"HTTP/1.1 302 There\r\nLocation: http://{address}/health/live\r\nContent-Length: 0\r\n\r\n"
    with served(says(head.encode())) as elsewhere:
        assert command("metrics", "-b", elsewhere, "--health", "live")[:2] == (0, "alive\n")


def test_a_port_that_is_no_number(command: Command) -> None:
    wrong = "cannot read http://localhost:abc: nonnumeric port: 'abc'; is odradek.metrics.listener set?"
    assert command("metrics", "-b", "localhost:abc") == (1, "", f"odradek metrics: {wrong}\n")
