"""`odradek start --host`: whom a broker lets in that listens on more than this machine's own addresses, and where it sends them."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.cli.node import start
from odradek.client import Admin
from odradek.config.broker import standalone_config
from tests.cli.support import running

WARNING = (
    b"odradek start: every client that can reach this machine can read, write and delete all data"
    b": listener PLAINTEXT does not authenticate clients, and authorizer.class.name is not set"
)

SPELLED_OTHERWISE = "0x7f.0.0.1"
"""127.0.0.1 as nobody writes it: what does not look like this machine's own is not taken for it, and tests listen for nobody else."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def started(folder: Path, *arguments: str, quiet: bool = False) -> tuple[bytes, bytes]:
    """What a broker says until a client has reached it on 127.0.0.1."""
    port = free_port()
    words = ["start", "--port", str(port), "--data-dir", f"{folder}/data", *(each.replace("%", str(port)) for each in arguments)]
    with running(*words) as process:
        assert process.stdout is not None
        first = b""
        while not quiet and b"  try  " not in first:
            first += process.stdout.readline()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=30_000) as admin:
            admin.list_topics()
            told = admin.describe_cluster().brokers[0]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
    return first + out, err.replace(f"{told.host}:{port}".encode(), b"(told)").replace(str(port).encode(), b"(port)")


def test_a_broker_for_all_says_so_and_where_it_sends_them(tmp_path: Path) -> None:
    out, err = started(tmp_path, "--host", SPELLED_OTHERWISE, "--override", "advertised.listeners=PLAINTEXT://127.0.0.1:%")
    assert f"  listener  PLAINTEXT://{SPELLED_OTHERWISE}:".encode() in out
    assert err.splitlines() == [
        WARNING,
        b"odradek start: clients are told to connect to PLAINTEXT://(told); choose another host with --override advertised.listeners=PLAINTEXT://HOST:(port)",
    ]


def test_a_quiet_start_warns_all_the_same(tmp_path: Path) -> None:
    out, err = started(
        tmp_path, "--quiet", "--host", SPELLED_OTHERWISE, "--override", "advertised.listeners=PLAINTEXT://127.0.0.1:%", quiet=True
    )
    assert out == b""
    assert err.splitlines()[0] == WARNING


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", None])
def test_a_broker_for_this_machine_does_not_warn(host: str | None, tmp_path: Path) -> None:
    _, err = started(tmp_path, *(("--host", host) if host is not None else ()))
    assert err == b""


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1")),
        *((host, False) for host in ("", "0.0.0.0", "::", "10.1.2.3", "fe80::1", "localhost.example")),
    ],
)
def test_which_addresses_are_this_machines_own(host: str, own: bool) -> None:
    assert start.is_loopback(host) is own


def test_without_a_host_clients_are_told_this_machines_name() -> None:
    (endpoint,) = start.load(start.parse(["--host", "0.0.0.0", "--port", "9192"])).advertised_listeners
    assert (endpoint.host, endpoint.port) == ("", 9192)
    options = start.parse(["--host", "::", "--override", "advertised.listeners=PLAINTEXT://[2001:db8::5]:9092"])
    (endpoint,) = start.load(options).advertised_listeners
    assert str(endpoint) == "PLAINTEXT://[2001:db8::5]:9092"


@pytest.mark.parametrize(
    ("protocols", "settings", "open_"),
    [
        ({"A": "PLAINTEXT"}, {}, "A"),
        ({"A": "SASL_PLAINTEXT", "B": "PLAINTEXT"}, {}, "B"),
        ({"A": "PLAINTEXT", "B": "SASL_SSL"}, {}, "A"),
        ({"A": "SSL", "B": "SSL"}, {"listener.name.a.ssl.client.auth": "required"}, "B"),
        ({"A": "SSL", "B": "SASL_SSL"}, {"listener.name.a.ssl.client.auth": "required"}, None),
        ({"A": "PLAINTEXT", "B": "PLAINTEXT"}, {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, None),
    ],
)
def test_one_listener_that_asks_nobody_is_enough_to_warn(
    protocols: dict[str, str], settings: dict[str, str], open_: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    listeners = [f"{name}://10.0.0.1:{9000 + number}" for number, name in enumerate(protocols)]
    map_ = ",".join(f"{name}:{protocol}" for name, protocol in {**protocols, "IN": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}.items())
    given = {"listeners": ",".join([*listeners, "IN://127.0.0.1:1", "CONTROLLER://127.0.0.1:2"]), "listener.security.protocol.map": map_}
    logins = {"sasl.enabled.mechanisms": "PLAIN"}
    for name in protocols:
        line = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
        logins |= {f"listener.name.{name.lower()}.plain.sasl.jaas.config": line} if protocols[name].startswith("SASL") else {}
    config = standalone_config({**given, **logins, "inter.broker.listener.name": "IN", "log.dirs": "/data", **settings})
    bound = [SimpleNamespace(name=name, scope="broker", host="10.0.0.1", port=9000 + number) for number, name in enumerate(protocols)]
    bound.append(SimpleNamespace(name="IN", scope="broker", host="127.0.0.1", port=1))
    start.warn(cast(Any, SimpleNamespace(config=config, bound_listeners=bound)))
    said = capsys.readouterr().err
    warned = [name for name in (*protocols, "IN") if f"listener {name} does not authenticate clients" in said]
    assert warned == ([] if open_ is None else [open_])
    assert "clients are told to connect to A://10.0.0.1:9000" in said
