"""Settings of listeners, TLS, SASL and configuration providers that change while a broker runs: the same on Odradek and on the JVM."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port
from interop.waiting import until as wait_for
from odradek.base.errors import KafkaError
from odradek.client import Admin, ConfigChange, ConfigResource
from tests.client.certificates import Certificates
from tests.server.listener_support import ANSWERED, API_VERSIONS, listens, login

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

ONE, ALL = ConfigResource("broker", "1"), ConfigResource("broker", "")
FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'


class Node:
    """A broker with a listener for TLS, OUT, whose settings come from a file."""

    def __init__(self, process: BrokerProcess, folder: Path, made: Certificates) -> None:
        self.process, self.made = process, made
        self.out = free_port()
        self.file = folder / f"{process.name}.properties"
        self.file.write_text(f"store={made.broker}\nsecret=hunter2\nnumber=7\nrack=north\n")
        self.listeners = f"PLAINTEXT://127.0.0.1:{process.port},OUT://127.0.0.1:{self.out},CONTROLLER://127.0.0.1:{process.controller_port}"
        self.map = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUT:SSL"
        process.overrides = {
            "listeners": self.listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{process.port},OUT://127.0.0.1:{self.out}",
            "listener.security.protocol.map": self.map,
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.reference("store"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(made.authority),
            "broker.rack": self.reference("rack"),
            "num.partitions": self.reference("number"),
            "config.providers": "file",
            "config.providers.file.class": FILE,
            "connection.failed.authentication.delay.ms": "0",
        }

    def reference(self, key: str) -> str:
        return f"${{file:{self.file}:{key}}}"

    def connect(self, **settings: str) -> Admin:
        return Admin({"bootstrap.servers": self.process.bootstrap, **settings})

    def set(self, resource: ConfigResource, **settings: str | None) -> str:
        """`ok`, or what the broker says; two underscores stand for a dot."""
        changes = {name.replace("__", "."): value for name, value in settings.items()}
        return self.change(resource, changes)

    def change(self, resource: ConfigResource, changes: dict[str, str | None]) -> str:
        asked = [ConfigChange(name, value, "delete" if value is None else "set") for name, value in changes.items()]
        try:
            with self.connect() as admin:
                admin.incremental_alter_configs({resource: asked})
        except KafkaError as error:
            return str(error)
        return "ok"

    def shown(self, name: str) -> tuple[str | None, bool, bool, list[tuple[str, str | None]]]:
        with self.connect() as admin:
            found = [each for each in admin.describe_configs([ONE], synonyms=True)[ONE] if each.name == name]
        if not found:
            return None, False, False, []  # the broker has not followed its metadata yet
        return found[0].value, found[0].read_only, found[0].sensitive, [(each.name, each.value) for each in found[0].synonyms]

    def shakes_hands(self, port: int | None = None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2, *, known: bool = False) -> bool:
        context = ssl.create_default_context(cafile=str(self.made.authority))
        context.check_hostname = False
        context.minimum_version = context.maximum_version = version
        if known:
            context.load_cert_chain(self.made.client)
        where = ("127.0.0.1", port or self.out)
        try:
            with socket.create_connection(where, 5) as raw, context.wrap_socket(raw) as secured:
                secured.sendall(API_VERSIONS)
                return secured.recv(8)[4:] == ANSWERED
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.fixture(scope="module", params=["odradek", "jvm"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp(request.param)
    process: BrokerProcess = OdradekBroker(folder / "broker") if request.param == "odradek" else JvmBroker(folder / "broker", heap="512m")
    found = Node(process, folder, Certificates(folder / "certificates"))
    try:
        process.start(120)
        yield found
    finally:
        process.kill()


class Refused(NamedTuple):
    resource: ConfigResource
    changes: dict[str, str | None]
    said: str


REFUSED = [
    Refused(ALL, {"ssl.client.auth": "required"}, "broker id must be specified"),
    Refused(ALL, {"sasl.enabled.mechanisms": "PLAIN"}, "broker id must be specified"),
    Refused(ALL, {"listeners": "PLAINTEXT://127.0.0.1:1"}, "broker id must be specified"),
    Refused(ALL, {"listener.name.out.ssl.keystore.location": "x"}, "broker id must be specified"),
    Refused(ONE, {"ssl.keystore.location": "x"}, "only per-listener using the listener prefix"),
    # Alone, the JVM accepts the first, and then refuses whatever else is changed (docs/differences.md).
    Refused(
        ONE, {"listener.name.out.ssl.client.auth": "required", "ssl.protocol": "TLS"}, "cannot be updated dynamically for existing listener"
    ),
    Refused(
        ONE, {"listener.name.out.sasl.enabled.mechanisms": "PLAIN", "ssl.protocol": "TLS"}, "updated dynamically for existing listener"
    ),
    Refused(ONE, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}, "OUT"),
    Refused(
        ONE, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUT:PLAINTEXT"}, "cannot be updated for existing"
    ),
    Refused(ONE, {"log.retention.ms": "${file:/x:y}"}, "Not a number of type LONG"),
    Refused(ONE, {"listener.name.out.max.connections": "x"}, "max.connections"),
    Refused(ALL, {"listener.name.out.max.connections": "0"}, "max.connections|Invalid"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join([case.resource.name or "all", *case.changes]))
def test_what_both_refuse(node: Node, case: Refused) -> None:
    answer = node.change(case.resource, case.changes)
    assert answer != "ok"
    assert any(said in answer for said in case.said.split("|")), answer


TAKEN = {
    "sasl.kerberos.min.time.before.relogin": "58000",
    "sasl.kerberos.kinit.cmd": "/usr/local/bin/kinit",
    "sasl.login.refresh.buffer.seconds": "100",
    "sasl.login.refresh.window.factor": "0.7",
    "num.io.threads": "9",
    "num.network.threads": "4",
    "listener.name.plaintext.num.network.threads": "4",
    "group.share.assignment.interval.ms": "100",
    "remote.log.reader.threads": "9",
    "follower.fetch.last.tiered.offset.enable": "true",
    "no.such.key": "a secret, for all that is known",
}
"""Settings that a broker keeps, most of which change nothing on ours."""


@pytest.mark.parametrize("name", TAKEN)
def test_what_both_take_and_show(node: Node, name: str) -> None:
    assert node.change(ONE, {name: TAKEN[name]}) == "ok"
    kept = (TAKEN[name], False) if name != "no.such.key" else (None, True)
    wait_for(lambda: node.shown(name)[0::2][:2] == kept)
    assert node.shown(name)[3][0] == (name, kept[0])
    assert node.change(ONE, {name: None}) == "ok"


@pytest.mark.parametrize(("name", "value"), [("num.io.threads", "90"), ("num.network.threads", "90"), ("num.io.threads", "many")])
def test_threads_that_both_refuse(node: Node, name: str, value: str) -> None:
    assert name in node.change(ONE, {name: value})


def test_values_behind_references_of_the_file(node: Node) -> None:
    assert node.shown("broker.rack")[:3] == ("north", True, False)
    assert node.shown("num.partitions")[:3] == ("7", True, False)
    assert node.shown("ssl.keystore.location")[0] == str(node.made.broker)
    assert node.shown("config.providers")[:3] == ("file", False, False)
    assert node.shown("config.providers.file.class") == (None, True, True, [("config.providers.file.class", None)])
    assert node.shakes_hands()


def test_the_keys_of_tls_without_a_listener_hold_for_those_to_come(node: Node) -> None:
    late = free_port()
    changes: dict[str, str | None] = {
        "ssl.client.auth": "required",
        "listeners": f"{node.listeners},LATE://127.0.0.1:{late}",
        "listener.security.protocol.map": f"{node.map},LATE:SSL",
    }
    assert node.change(ONE, changes) == "ok"
    wait_for(lambda: listens(late))
    assert not node.shakes_hands(late)
    assert node.shakes_hands(late, known=True)
    assert node.shakes_hands()
    assert node.change(ONE, dict.fromkeys(changes)) == "ok"
    wait_for(lambda: not listens(late))


def test_a_listener_comes_with_its_settings_and_goes(node: Node) -> None:
    plain, tls, sasl = (free_port() for _ in range(3))
    listeners = f"{node.listeners},EXTRA://127.0.0.1:{plain},STRICT://127.0.0.1:{tls},LOGINS://127.0.0.1:{sasl}"
    changes: dict[str, str | None] = {
        "listeners": listeners,
        "listener.security.protocol.map": f"{node.map},EXTRA:PLAINTEXT,STRICT:SSL,LOGINS:SASL_PLAINTEXT",
        "listener.name.strict.ssl.client.auth": "required",
        "listener.name.logins.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.logins.plain.sasl.jaas.config": PLAIN,
    }
    assert node.change(ONE, changes) == "ok"
    wait_for(lambda: all(map(listens, (plain, tls, sasl))))
    assert not node.shakes_hands(tls)
    assert node.shakes_hands(tls, known=True)
    assert login(sasl, "alice", "wonderland")
    assert not login(sasl, "alice", "looking-glass")
    assert node.shown("listener.name.logins.plain.sasl.jaas.config")[0] is None
    assert "dynamically for existing listener" in node.change(ONE, {"listener.name.strict.ssl.client.auth": "none", "ssl.protocol": "TLS"})
    assert "OUT" in node.change(ONE, {"listeners": listeners.replace(f"OUT://127.0.0.1:{node.out},", "")})
    assert node.change(ONE, dict.fromkeys(changes)) == "ok"
    wait_for(lambda: not any(map(listens, (plain, tls, sasl))))


def test_a_listener_has_a_limit_of_its_own(node: Node) -> None:
    for resource in (ALL, ONE):
        assert node.change(resource, {"listener.name.out.max.connections": "1"}) == "ok"
    value, _, sensitive, _ = node.shown("listener.name.out.max.connections")
    assert (value, sensitive) == ("1", False)
    with socket.create_connection(("127.0.0.1", node.out)) as first:
        # Odradek closes the second, the JVM leaves it alone until the first has ended.
        with socket.create_connection(("127.0.0.1", node.out)) as second, contextlib.suppress(OSError):
            second.settimeout(1)
            second.sendall(b"\x16\x03\x01")
            assert second.recv(1) in (b"",)
        assert first.fileno() > 0
    wait_for(node.shakes_hands)
    for resource in (ALL, ONE):
        assert node.change(resource, {"listener.name.out.max.connections": None}) == "ok"


def test_settings_at_run_time_are_stored_as_references(node: Node) -> None:
    store, number = "listener.name.out.ssl.keystore.location", "log.retention.ms"
    assert node.change(ONE, {store: node.reference("store")}) == "ok"
    wait_for(lambda: node.shown(store)[0] == str(node.made.broker))
    assert node.shown(store)[1:] == (True, False, [(store, node.reference("store")), ("ssl.keystore.location", str(node.made.broker))])
    assert node.shakes_hands()
    assert "LONG" in node.change(ONE, {number: node.reference("number")}), "the provider of the file does not count"
    provider = {"config.providers": "file", "config.providers.file.class": FILE}
    assert node.change(ONE, provider | {number: node.reference("number")}) == "ok"
    wait_for(lambda: node.shown(number)[0] == "7")
    assert node.shown(number)[3][0] == (number, node.reference("number"))
    assert node.shown("config.providers.file.class") == (None, True, True, [("config.providers.file.class", None)] * 2)
    assert node.change(ONE, dict.fromkeys((store, number, *provider))) == "ok"
