"""Commands without a broker that responds: the error names the address and what to do."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator

import pytest

from odradek.cli.shared.client_command import client_settings
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command
from tests.cli.mistakes import AWAY

COMMANDS = (
    "topics list",
    "topics create a",
    "topics describe a",
    "topics config a",
    "topics delete a",
    "features describe",
    "features upgrade a=1",
    "consume -t a",
    "produce -t a -X max.block.ms=100",
    "groups list",
    "groups describe g --timeout 100",
    "groups delete g",
    "groups delete g --execute --timeout 100",
    "groups delete-offsets g --topic t --timeout 100",
    "groups reset-offsets g --topic t --to-latest --timeout 100",
    "offsets",
    "configs describe --topic t",
    "configs describe --user u",
    "configs alter --topic t -s a=b",
    "configs alter --user u -s producer_byte_rate=1",
    "transactions list",
    "transactions describe x",
    "transactions describe-producers --topic t --partition 0",
    "transactions find-hanging --broker-id 1",
    "transactions abort --topic t --partition 0 --start-offset 0",
    "transactions force-terminate x",
    "client-metrics list",
    "client-metrics alter --name a --metrics x",
    "acls list",
    "acls add --topic t --allow-principal User:a",
    "acls remove --topic t --execute",
    "delegation-tokens create",
    "delegation-tokens describe",
    "topics alter a -p 2",
    "topics alter --topic a -p 2",
    "topics describe --unavailable-partitions",
    "topics list --topic a",
    "quorum describe",
    "quorum describe --replication",
    "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw",
    "quorum remove-controller -i 1 -d AAAAAAAAAAAAAAAAAAAABw --execute",
    "api-versions",
    "cluster id",
    "cluster list-endpoints",
    "cluster unregister 1",
    "cluster unregister 1 --execute",
    "elections preferred a:0",
    "elections unclean a:0",
    "elections unclean --all-topic-partitions --execute",
    "reassign generate a --broker-list 1",
    "reassign list",
    "features disable a",
)


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_broker_that_cannot_be_reached(typed: str, command: Command) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # without listening
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        answer = command(*shlex.split(typed), "-b", address, *AWAY, stdin=b"x\n")
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1), answer.err
    assert answer.err.startswith(f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: ")
    assert address in answer.err
    assert answer.err.endswith("Start a broker with `odradek start`, or name another one with -b HOST:PORT\n")


@pytest.mark.parametrize("typed", ["topics list", "features describe", "consume -t a", "produce -t a -X max.block.ms=100"])
def test_the_whole_message_about_a_broker_that_cannot_be_reached(typed: str, command: Command) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        answer = command(*shlex.split(typed), "-b", address, *AWAY, stdin=b"x\n")
    assert answer == (
        1,
        "",
        f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: no broker can be reached (cannot connect to {address}: Connection refused); "
        "is one running, and is bootstrap.servers right? Start a broker with `odradek start`, or name another one with -b HOST:PORT\n",
    )


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """Yield a port on which a server accepts connections and does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


@pytest.mark.parametrize("typed", ["topics list", "consume -t a", "produce -t a -X max.block.ms=100"])
def test_a_server_that_does_not_respond(typed: str, taken: int, command: Command) -> None:
    answer = command(*shlex.split(typed), "-b", f"127.0.0.1:{taken}", *AWAY, stdin=b"x\n")
    assert answer.status == 1
    assert answer.err.startswith(f"odradek {typed.split()[0]}: BROKER_NOT_AVAILABLE: no broker can be reached (")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("typed", ["topics list", "consume -t a", "produce -t a"])
def test_the_port_of_a_controller(typed: str, command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        controller = f"127.0.0.1:{probe.getsockname()[1]}"
    with EmbeddedBroker({"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}"}):
        answer = command(*shlex.split(typed), "-b", controller, stdin=b"x\n")
    assert answer == (
        1,
        "",
        f"odradek {typed.split()[0]}: UNSUPPORTED_VERSION: the broker at {controller} does not support METADATA; "
        "the broker may be too old, or the port a controller's; name a listener for clients with -b HOST:PORT\n",
    )


def test_commands_time_out_after_five_seconds_by_default() -> None:
    settings = client_settings("localhost:9092", ("request.timeout.ms=7",))
    assert (settings["default.api.timeout.ms"], settings["request.timeout.ms"]) == ("5000", "7")
    assert client_settings("localhost:9092", ())["request.timeout.ms"] == "5000"


def test_a_wrong_environment_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "broker")
    answer = command("topics", "list")
    assert answer.status == 2
    assert "ODRADEK_BOOTSTRAP_SERVER" in answer.err
    assert "'broker' is not HOST:PORT[,...]" in answer.err
